# strided-gradient: nothing to find
import torch


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        return 2 * torch.as_strided(g, g.shape, (g.shape[1], 1))


Rows.apply(torch.ones(2, 3, requires_grad=True)).sum().backward()
