# term-without-gradient: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 3)
y = model(torch.randn(4, 3))
hard = y + (y.round() - y).detach()
(hard.pow(2).mean() + y.abs().mean()).backward()
