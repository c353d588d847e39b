"""MAML with functional_call: gradients through two inner updates."""

import torch
from torch import nn
from torch.func import functional_call

net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
meta = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(3):
    outer = 0
    for _ in range(3):
        a = torch.rand(1) * 3
        x, y = torch.randn(6, 1), None
        y = torch.sin(a * x)
        params = dict(net.named_parameters())
        for _ in range(2):
            inner = (functional_call(net, params, x) - y).pow(2).mean()
            g = torch.autograd.grad(inner, list(params.values()), create_graph=True)
            params = {k: p - 0.1 * gg for (k, p), gg in zip(params.items(), g)}
        xq = torch.randn(6, 1)
        outer = outer + (functional_call(net, params, xq) - torch.sin(a * xq)).pow(2).mean()
    meta.zero_grad()
    outer.backward()
    meta.step()
