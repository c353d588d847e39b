# partial-module-hook: expected at line 6
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
net.register_backward_hook(lambda module, before, after: None)
net(torch.ones(1, 2, requires_grad=True)).sum().backward()
