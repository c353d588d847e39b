# parameter-without-gradient: expected at line 10
import torch
from torch import nn

G, D = nn.Linear(2, 4), nn.Linear(4, 3)
opt = torch.optim.SGD(G.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    fake = G(torch.randn(5, 2)).tanh()
    features = D(fake.detach())
    (features - 1).pow(2).mean().backward()
    opt.step()
