# loss-without-graph: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 2)
with torch.no_grad():
    accuracy = (model(torch.randn(5, 3)).argmax(1) == 1).float().mean()
model(torch.randn(5, 3)).pow(2).mean().backward()
