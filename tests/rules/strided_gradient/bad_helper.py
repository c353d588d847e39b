# strided-gradient: expected at line 16
import torch


def raw(g):
    return g


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        parts = [torch.as_strided(raw(g), (2,), (1,), i * 2) for i in range(2)]
        return torch.stack(parts)


Same.apply(torch.ones(2, 2, requires_grad=True)).pow(2).sum().backward()
