"""BYOL: a target network that follows slowly, without gradients."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

online = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
pred = nn.Linear(4, 4)
target = copy.deepcopy(online)
opt = torch.optim.SGD([*online.parameters(), *pred.parameters()], 0.1, momentum=0.9)
for _ in range(3):
    a = torch.randn(16, 6)
    b = a + 0.1 * torch.randn(16, 6)
    p = F.normalize(pred(online(a)), dim=-1)
    with torch.no_grad():
        z = F.normalize(target(b), dim=-1)
    loss = 2 - 2 * (p * z).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for o, t in zip(online.parameters(), target.parameters()):
            t.data.mul_(0.99).add_(o.data, alpha=0.01)
