# strided-gradient: expected at line 13
import torch
from torch import nn


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, g):
        return g.as_strided(g.shape, (g.shape[1], 1)) / 2


class Layer(nn.Module):
    def forward(self, x):
        return Half.apply(x).cos()


Layer()(torch.ones(2, 2, requires_grad=True)).sum().backward()
