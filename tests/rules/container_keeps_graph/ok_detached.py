# container-keeps-graph: nothing to find
import torch
from torch import nn

model, outputs = nn.Linear(3, 1), []
for _ in range(20):
    out = model(torch.randn(4, 3))
    out.mean().backward()
    outputs.append(out.detach())
