# stale-gradient: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    opt.zero_grad()
    for _ in range(4):
        (model(torch.ones(2, 3)).mean() / 4).backward()
    opt.step()
