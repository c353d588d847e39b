"""Experts chosen per row, with rows gathered and added back."""

import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        w = self.gate(x).softmax(-1)
        top, idx = w.max(-1)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (idx == e).nonzero().squeeze(-1)
            if rows.numel():
                y = y.index_add(0, rows, expert(x[rows]) * top[rows, None])
        return y


m = MoE()
opt = torch.optim.SGD(m.parameters(), 0.1)
for _ in range(4):
    x = torch.randn(12, 4)
    loss = (m(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
