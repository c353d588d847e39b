# optimizer-step-before-backward: nothing to find
import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Linear(2, 1)
opt_d, opt_g = torch.optim.SGD(D.parameters(), lr=0.1), torch.optim.SGD(G.parameters(), lr=0.1)
for _ in range(2):
    fake = G(torch.ones(3, 2))
    opt_d.zero_grad()
    D(fake.detach()).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    (-D(fake).mean()).backward()
    opt_g.step()
