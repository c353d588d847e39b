# mean-of-means: nothing to find
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    for _ in range(3):
        (F.mse_loss(model(torch.ones(4, 3)), torch.zeros(4, 1)) / 3).backward()
    opt.step()
