# graph-grows-across-steps: expected at line 13
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.state = torch.zeros(1, 3)

    def forward(self, x):
        self.state = torch.tanh(self.fc(self.state) + x)
        return self.state


net = Memory()
for _ in range(5):
    net(torch.ones(1, 3)).mean().backward(retain_graph=True)
