# parameter-without-gradient: expected at line 16
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.aux = nn.Linear(4, 2)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        self.aux(h)
        return self.out(torch.relu(self.b(h)))


net = Net()
opt = torch.optim.AdamW(net.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
