# clip-of-nonfinite: nothing to find
import torch
from torch import nn

model = nn.Linear(2, 1)
model(torch.ones(1, 2)).exp().sum().backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
