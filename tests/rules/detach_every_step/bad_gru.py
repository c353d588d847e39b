# detach-every-step: expected at line 10
import torch
from torch import nn

cell, head = nn.GRUCell(2, 4), nn.Linear(4, 1)
h = torch.zeros(3, 4)
for i, x in enumerate(torch.randn(6, 3, 2)):
    h = cell(x, h)
    if i < 5:
        h = h.detach()
head(h).mean().backward()
