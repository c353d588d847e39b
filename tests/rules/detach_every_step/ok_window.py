# detach-every-step: nothing to find
import torch
from torch import nn

cell, h = nn.RNNCell(2, 4), torch.zeros(1, 4)
for window in torch.randn(3, 5, 1, 2):
    h = h.detach()
    for x in window:
        h = cell(x, h)
    h.sum().backward()
