# partial-module-hook: nothing to find
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
net.register_full_backward_hook(lambda module, before, after: None)
net(torch.ones(1, 2, requires_grad=True)).sum().backward()
