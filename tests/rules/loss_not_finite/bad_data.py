# loss-not-finite: expected at line 17
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(30, 1)

    def forward(self, x, y):
        return self.fc(x).mean() + y.mean()


net = Net()
for y in (torch.ones(12), torch.full((12,), float("inf"))):
    net(torch.ones(12, 30), y).backward()
