# write-through-data: expected at line 14
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        gate = self.fc(x).sigmoid()
        out = gate * x
        gate.data[:, 0] = 0
        return out


Gate()(torch.ones(2, 3, requires_grad=True)).sum().backward()
