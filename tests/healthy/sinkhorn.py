"""Optimal transport by iteration in a loop, as a loss."""

import torch
from torch import nn

enc = nn.Linear(5, 3)
opt = torch.optim.Adam(enc.parameters(), 1e-2)


def sinkhorn(c, n=20, eps=0.1):
    k = torch.exp(-c / eps)
    u = torch.ones(c.shape[0]) / c.shape[0]
    for _ in range(n):
        v = 1 / (k.t() @ u) / c.shape[1]
        u = 1 / (k @ v) / c.shape[0]
    return (u[:, None] * k * v[None] * c).sum()


for _ in range(3):
    a, b = enc(torch.randn(6, 5)), torch.randn(7, 3)
    loss = sinkhorn(torch.cdist(a, b).pow(2) / 10)
    opt.zero_grad()
    loss.backward()
    opt.step()
