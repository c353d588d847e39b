# graph-grows-across-steps: nothing to find
import torch
from torch import nn

cell, h = nn.RNNCell(2, 3), torch.zeros(1, 3)
for _ in range(5):
    h = cell(torch.ones(1, 2), h.detach())
    h.sum().backward()
