# output-on-ctx: nothing to find
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.shape = x.shape
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


Scale.apply(torch.ones(3, requires_grad=True), 2.0).sum().backward()
