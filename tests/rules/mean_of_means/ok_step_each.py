# mean-of-means: nothing to find
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for n in (8, 2, 5):
    opt.zero_grad()
    F.mse_loss(model(torch.ones(n, 3)), torch.zeros(n, 1)).backward()
    opt.step()
