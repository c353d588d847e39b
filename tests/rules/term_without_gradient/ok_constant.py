# term-without-gradient: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
offset = torch.tensor(0.5)
(model(torch.ones(2, 3)).pow(2).mean() + offset).backward()
