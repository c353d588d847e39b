# what-is-saved: nothing to find
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model(torch.ones(3, 4)).sum().backward()
