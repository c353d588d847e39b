# gradient-explodes: nothing to find
import torch
from torch import nn

f = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(f.parameters(), 1e-2)


def rk4(x, n, dt=0.05):
    for _ in range(n):
        k1 = f(x)
        k2 = f(x + dt / 2 * k1)
        k3 = f(x + dt / 2 * k2)
        k4 = f(x + dt * k3)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


for _ in range(3):
    x0 = torch.randn(8, 2)
    loss = (rk4(x0, 10) - x0 * 0.5).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
