# optimizer-step-before-backward: expected at line 11
import contextlib

import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(D.parameters())
score = D(G(torch.randn(3, 2))).mean()
score.backward(retain_graph=True)
opt.step()
with contextlib.suppress(RuntimeError):
    (-score).backward()
