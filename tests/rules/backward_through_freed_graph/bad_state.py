# backward-through-freed-graph: expected at line 10
import contextlib

import torch
from torch import nn

cell, h = nn.GRUCell(2, 3), torch.zeros(1, 3)
with contextlib.suppress(RuntimeError):
    for x in torch.ones(4, 1, 2):
        h = cell(x, h)
        h.pow(2).sum().backward()
