# invariant-in-loop: expected at line 14
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.cell = nn.Linear(16, 8), nn.GRUCell(8, 8)

    def forward(self, encoded, n):
        h = torch.zeros(80, 8)
        for _ in range(n):
            h = self.cell(self.memory(encoded), h)
        return h


Decoder()(torch.randn(80, 16), 6).sum().backward()
