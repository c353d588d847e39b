# data-dependent-decision: expected at line 7
import torch


def halve(x):
    n = 0
    while (x > 1).any():
        x, n = x / 2, n + 1
    return n


halve(torch.tensor([5.0, 0.3]))
