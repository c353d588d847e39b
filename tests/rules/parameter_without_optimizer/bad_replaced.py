# parameter-without-optimizer: expected at line 13
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 10))
net(torch.ones(1, 3))
opt = torch.optim.Adam(net.parameters())
net[2] = nn.Linear(4, 10)


def train(x):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    opt.step()


for _ in range(3):
    train(torch.ones(2, 3))
