# host-read-in-loop: expected at line 7
import torch


def steps(x):
    n = 0
    while x.norm() > 0.01:
        x, n = x * 0.5, n + 1
    return n


steps(torch.full((3,), 1000.0))
