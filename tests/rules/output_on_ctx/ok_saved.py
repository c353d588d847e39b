# output-on-ctx: nothing to find
import torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


Exp.apply(torch.ones(3, requires_grad=True)).sum().backward()
