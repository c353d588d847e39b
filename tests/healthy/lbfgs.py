"""LBFGS, whose step calls the closure several times."""

import torch
from torch import nn

x = torch.linspace(-1, 1, 20)[:, None]
y = x**3
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for _ in range(3):
    optimizer.step(closure)
