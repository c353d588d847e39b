# gradient-shape: expected at line 14
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor


x = torch.ones(3, requires_grad=True)
try:
    Scale.apply(x, 2.0).sum().backward()
except RuntimeError:
    pass
