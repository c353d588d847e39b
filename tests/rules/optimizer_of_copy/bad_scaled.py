# optimizer-of-copy: expected at line 8
import contextlib

import torch


def make(n):
    return torch.randn(n, requires_grad=True) * 0.01


with contextlib.suppress(ValueError):
    torch.optim.Adam([make(4)])
