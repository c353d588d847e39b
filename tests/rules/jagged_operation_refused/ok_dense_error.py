# jagged-operation-refused: nothing to find
import contextlib

import torch

with contextlib.suppress(RuntimeError):
    torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
