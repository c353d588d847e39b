# parameter-without-gradient: nothing to find
import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for i in range(6):
    with torch.no_grad():
        fake = G(torch.randn(4, 2))
    d = (D(fake) - D(torch.ones(4, 2))).mean()
    od.zero_grad()
    d.backward()
    od.step()
    if i % 3 == 2:
        g = -D(G(torch.randn(4, 2))).mean()
        og.zero_grad()
        g.backward()
        og.step()
