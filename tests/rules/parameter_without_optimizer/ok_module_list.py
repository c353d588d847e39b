# parameter-without-optimizer: nothing to find
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x).tanh()
        return x.sum()


net = Stack()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(2, 3)).backward()
opt.step()
