# parameter-without-optimizer: nothing to find
import torch
from torch import nn


class Apply(nn.Module):
    def forward(self, layer, x):
        return layer(x).sum()


layer = nn.Linear(3, 3)
opt = torch.optim.SGD(layer.parameters(), lr=0.1)
Apply()(layer, torch.ones(2, 3)).backward()
opt.step()
