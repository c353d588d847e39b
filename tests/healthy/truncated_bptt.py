"""Truncated backpropagation through time: the state is cut once at the border of each window."""

import torch
import torch.nn.functional as F
from torch import nn

cell, head = nn.LSTMCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
series = torch.randn(40, 4, 3)
h, c = torch.zeros(4, 8), torch.zeros(4, 8)
running = 0.0
for start in range(0, 40, 8):
    h, c = h.detach(), c.detach()
    losses = []
    for t in range(start, min(start + 8, 39)):
        h, c = cell(series[t], (h, c))
        losses.append(F.mse_loss(head(h), series[t + 1]))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss.item()
