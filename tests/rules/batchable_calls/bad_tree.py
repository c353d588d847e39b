# batchable-calls: expected at line 11
import torch
from torch import nn

combine = nn.Linear(8, 4)


def tree(depth):
    if depth == 0:
        return torch.ones(1, 4)
    return torch.tanh(combine(torch.cat([tree(depth - 1), tree(depth - 1)], 1)))


(tree(4) + tree(4)).sum().backward()
