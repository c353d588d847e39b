"""A critic with a gradient penalty: gradients of gradients."""

import torch
from torch import nn

critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for _ in range(5):
    real, fake = torch.randn(6, 3), torch.randn(6, 3) + 1
    mix = torch.rand(6, 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).pow(2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
