# parameters-depend-on-branch: expected at line 12
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.low, self.high = nn.Linear(2, 1), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        if x[0, 0] > 1:
            y = self.high(x).relu()
        else:
            y = self.low(x)
        return y * self.gate(x).sigmoid()


net = Experts()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for value in (0.0, 2.0, 3.0):
    opt.zero_grad()
    net(torch.full((1, 2), value)).sum().backward()
    opt.step()
