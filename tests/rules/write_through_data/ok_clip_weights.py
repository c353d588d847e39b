# write-through-data: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    model(torch.ones(2, 3)).mean().backward()
    opt.step()
    for p in model.parameters():
        p.data.clamp_(-0.01, 0.01)
