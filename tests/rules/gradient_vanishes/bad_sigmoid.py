# gradient-vanishes: expected at line 15
import torch
from torch import nn


class Elman(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8) * 0.02)
        self.u = nn.Linear(4, 8)

    def forward(self, xs):
        h = torch.zeros(xs.shape[1], 8)
        for x in xs:
            h = torch.sigmoid(h @ self.w + self.u(x))
        return h


net = Elman()
out = net(torch.randn(25, 3, 4)).sum()
out.backward()
