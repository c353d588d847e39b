# optimizer-of-copy: expected at line 6
import contextlib

import torch

w = torch.zeros(3, requires_grad=True).double()
with contextlib.suppress(ValueError):
    torch.optim.SGD([w], lr=0.1)
