# strided-gradient: expected at line 14
import contextlib

import torch


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return 2 * torch.as_strided(g, (2, 3), (3, 1))


with contextlib.suppress(RuntimeError):
    Rows.apply(torch.ones(2, 3, requires_grad=True)).exp().sum().backward()
