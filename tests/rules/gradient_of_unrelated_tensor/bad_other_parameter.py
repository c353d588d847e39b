# gradient-of-unrelated-tensor: expected at line 12
import contextlib

import torch
from torch import nn

layers = [nn.Linear(2, 2) for _ in range(3)]
h = torch.ones(1, 2)
for layer in layers[:2]:
    h = layer(h)
with contextlib.suppress(RuntimeError):
    torch.autograd.grad(h.sum(), layers[2].weight)
