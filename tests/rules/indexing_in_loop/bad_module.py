# indexing-in-loop: expected at line 14
import torch
from torch import nn


class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell = nn.Linear(2, 3), nn.RNNCell(3, 3)

    def forward(self, x):
        e, h = self.embed(x), torch.zeros(1, 3)
        for t in range(e.shape[1]):
            h = self.cell(e[:, t], h)
        return h


Scan()(torch.randn(1, 36, 2)).sum().backward()
