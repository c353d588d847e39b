# batchable-calls: expected at line 12
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).relu()


net = Net()
total = 0
for x in torch.randn(24, 1, 3):
    total = total + net(x).sum()
total.backward()
