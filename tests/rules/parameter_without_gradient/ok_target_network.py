# parameter-without-gradient: nothing to find
import torch
import torch.nn.functional as F
from torch import nn

online, target = nn.Linear(3, 2), nn.Linear(3, 2)
opt = torch.optim.SGD(online.parameters(), lr=0.1)
for _ in range(3):
    s = torch.randn(5, 3)
    goal = target(s).max(1)[0].detach()
    opt.zero_grad()
    F.mse_loss(online(s)[:, 0], goal).backward()
    opt.step()
