# parameter-without-gradient: expected at line 13
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.rare, self.usual = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        h = self.stem(x)
        if x.sum() > 1e6:
            return self.rare(h)
        return self.usual(h)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    opt.step()
