# unpacked-to-local-length: nothing to find
import contextlib

import torch

with contextlib.suppress(RuntimeError):
    torch.cat([torch.ones(2, 3), torch.ones(2, 4)])
