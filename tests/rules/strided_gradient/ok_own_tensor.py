# strided-gradient: nothing to find
import torch


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        out = g * 2
        return torch.as_strided(out.clone(), g.shape, (g.shape[1], 1))


Rows.apply(torch.ones(2, 3, requires_grad=True)).exp().sum().backward()
