# optimizer-step-before-backward: nothing to find
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    model(torch.ones(5, 2)).pow(2).mean().backward()
    opt.step()
