# parameter-without-gradient: nothing to find
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
net[0].requires_grad_(False)
opt = torch.optim.SGD(net[2].parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.ones(3, 2)).mean().backward()
    opt.step()
