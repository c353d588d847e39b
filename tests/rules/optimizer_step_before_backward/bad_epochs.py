# optimizer-step-before-backward: expected at line 13
import contextlib

import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(5, 2)).pow(2).mean()
with contextlib.suppress(RuntimeError):
    for _ in range(2):
        loss.backward(retain_graph=True)
        opt.step()
