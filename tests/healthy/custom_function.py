"""A custom Function that saves its input and output, inside a model."""

from typing import Any

import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, beta: float) -> torch.Tensor:
        ctx.beta = beta
        ctx.save_for_backward(x)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return g * (s + ctx.beta * x * s * (1 - s)), None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(Swish.apply(self.a(x), 1.5))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for _ in range(5):
    x = torch.randn(10, 3)
    loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
