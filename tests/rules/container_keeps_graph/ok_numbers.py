# container-keeps-graph: nothing to find
import torch
from torch import nn

model, losses = nn.Linear(3, 1), []
for _ in range(20):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    losses.append(loss.item())
