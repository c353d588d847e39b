# gradient-shape: expected at line 17
import contextlib

import torch
from torch import nn


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g.t() @ x


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return MatMul.apply(x, self.w)


with contextlib.suppress(RuntimeError):
    Layer()(torch.ones(5, 3)).sum().backward()
