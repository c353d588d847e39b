# output-on-ctx: nothing to find
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.twice = 2 * x
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.twice


Square.apply(torch.ones(3, requires_grad=True)).sum().backward()
