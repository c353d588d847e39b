# write-into-view: expected at line 9
import contextlib

import torch

x = torch.ones(4, 2, requires_grad=True).exp()
left, right = x.chunk(2)
with contextlib.suppress(RuntimeError):
    left.zero_()
