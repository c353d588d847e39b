# mean-of-means: expected at line 11
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    for n in (8, 2):
        loss = F.mse_loss(model(torch.ones(n, 3)), torch.zeros(n, 1))
        (loss / 2).backward()
    opt.step()
