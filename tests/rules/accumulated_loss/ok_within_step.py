# accumulated-loss: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
for _ in range(4):
    total = 0
    for _ in range(5):
        total = total + model(torch.randn(4, 3)).pow(2).mean()
    total.backward()
