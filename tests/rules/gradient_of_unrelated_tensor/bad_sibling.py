# gradient-of-unrelated-tensor: expected at line 10
import contextlib

import torch

a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
z = torch.stack([a, b])
loss = (a + b).sum()
with contextlib.suppress(RuntimeError):
    torch.autograd.grad(loss, z)
