# decision-mixes-examples: nothing to find
import torch
from torch import nn

cell, h = nn.RNNCell(3, 4), torch.zeros(1, 4)
for step in torch.randn(5, 1, 3):
    h = cell(step, h)
    h = h.relu() if h.mean() > 0 else h.tanh()
h.sum().backward()
