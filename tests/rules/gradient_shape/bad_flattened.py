# gradient-shape: expected at line 14
import contextlib

import torch


class Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g.reshape(-1)


x = torch.ones(2, 3, requires_grad=True)
h = x
with contextlib.suppress(RuntimeError):
    for _ in range(2):
        h = Keep.apply(h)
    h.sum().backward()
