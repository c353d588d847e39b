# accumulated-loss: nothing to find
import torch
from torch import nn

model, total = nn.Linear(3, 1), torch.zeros(())
for _ in range(6):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    total += loss.detach()
