# inplace-on-leaf: nothing to find
import torch
from torch import nn

layer = nn.Linear(3, 3)
nn.init.uniform_(layer.weight)
layer(torch.ones(1, 3)).sum().backward()
