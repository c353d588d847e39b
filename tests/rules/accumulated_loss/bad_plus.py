# accumulated-loss: expected at line 9
import torch
from torch import nn

model, total = nn.Linear(3, 1), 0.0
for _ in range(6):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    total = total + loss
