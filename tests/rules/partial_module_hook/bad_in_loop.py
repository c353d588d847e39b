# partial-module-hook: expected at line 8
import torch
from torch import nn


def watch(model):
    for part in model:
        part.register_backward_hook(lambda module, before, after: None)


net = nn.Sequential(nn.GRUCell(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
watch(net)
net(torch.ones(1, 2)).sum().backward()
