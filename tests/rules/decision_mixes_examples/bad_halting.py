# decision-mixes-examples: expected at line 7
import torch
from torch import nn


def refine(x, step):
    while x.norm() > 1.0:
        x = x * 0.5 + step(x) * 0.01
    return x


refine(torch.randn(4, 3) * 10, nn.Linear(3, 3)).sum().backward()
