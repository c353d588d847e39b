# stale-gradient: expected at line 9
import torch
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    model(torch.ones(2, 3)).pow(2).mean().backward()
    opt.step()
