# parameter-without-optimizer: expected at line 14
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(3, 3) for _ in range(2)]
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x).tanh()
        return self.out(x)


net = Stack()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.ones(2, 3)).sum().backward()
    opt.step()
