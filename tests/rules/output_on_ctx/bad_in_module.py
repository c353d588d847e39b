# output-on-ctx: expected at line 10
import torch
from torch import nn


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x.sigmoid()
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, g):
        return g * ctx.out * (1 - ctx.out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        for _ in range(3):
            x = Gate.apply(self.fc(x))
        return x


Net()(torch.ones(1, 2)).sum().backward()
