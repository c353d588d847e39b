# shape-dependent-loop: nothing to find
import torch
from torch import nn

model = nn.Linear(2, 1)


def epoch(n):
    for _ in range(n):
        model(torch.ones(3, 2)).sum().backward()


epoch(2)
epoch(4)
