# parameter-without-optimizer: nothing to find
import torch
from torch import nn

body, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    head(body(torch.ones(2, 3)).relu()).sum().backward()
    opt.step()
