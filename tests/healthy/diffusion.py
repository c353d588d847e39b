"""A denoising model, then samples drawn without gradients."""

import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-3)
beta = torch.linspace(1e-4, 0.02, 10)
ab = torch.cumprod(1 - beta, 0)
for _ in range(3):
    x0 = torch.randn(8, 2)
    t = torch.randint(0, 10, (8,))
    eps = torch.randn_like(x0)
    xt = ab[t].sqrt()[:, None] * x0 + (1 - ab[t]).sqrt()[:, None] * eps
    loss = (net(torch.cat([xt, t[:, None] / 10], 1)) - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2)
    for i in reversed(range(10)):
        e = net(torch.cat([x, torch.full((n, 1), i / 10)], 1))
        x = (x - beta[i] / (1 - ab[i]).sqrt() * e) / (1 - beta[i]).sqrt()
        if i > 0:
            x = x + beta[i].sqrt() * torch.randn_like(x)
    return x


sample(4)
