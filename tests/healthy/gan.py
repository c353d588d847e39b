"""A GAN: the discriminator sees detached fakes, the generator learns through it; non-saturating losses."""

import torch
import torch.nn.functional as F
from torch import nn

G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
for _ in range(6):
    real = torch.randn(8, 2) * 0.5 + 1
    fake = G(torch.randn(8, 4))
    opt_d.zero_grad()
    real_loss = F.softplus(-D(real)).mean()
    fake_loss = F.softplus(D(fake.detach())).mean()
    (real_loss + fake_loss).backward()
    opt_d.step()
    opt_g.zero_grad()
    F.softplus(-D(fake)).mean().backward()
    opt_g.step()
