# detach-every-step: expected at line 11
import torch
from torch import nn

cell = nn.RNNCell(2, 4)


def unroll(xs):
    h = torch.zeros(1, 4)
    for x in xs:
        h = cell(x, h.detach())
    return h


unroll(torch.randn(5, 1, 2)).sum().backward()
