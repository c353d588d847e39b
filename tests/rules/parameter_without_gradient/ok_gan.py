# parameter-without-gradient: nothing to find
import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Linear(2, 1)
og, od = torch.optim.SGD(G.parameters(), lr=0.1), torch.optim.SGD(D.parameters(), lr=0.1)
for _ in range(2):
    fake = G(torch.randn(4, 2))
    od.zero_grad()
    (D(fake.detach()) - D(torch.ones(4, 2))).mean().backward()
    od.step()
    og.zero_grad()
    (-D(fake).mean()).backward()
    og.step()
