# decision-mixes-examples: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
best = float("inf")
for _ in range(5):
    opt.zero_grad()
    loss = model(torch.randn(8, 3)).pow(2).mean()
    if loss < best:
        best = loss.item()
    loss.backward()
    opt.step()
    if loss.item() < 1e-9:
        break
