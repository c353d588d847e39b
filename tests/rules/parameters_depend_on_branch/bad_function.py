# parameters-depend-on-branch: expected at line 18
import torch
from torch import nn


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))

    def pos(self, x):
        return self.u * x

    def neg(self, x):
        return self.v * x.exp()

    def forward(self, x):
        if (x > 0).all():
            y = self.pos(x)
        else:
            y = self.neg(x)
        return y.sum()


net = Two()
for x in (torch.ones(2), -torch.ones(2)):
    net(x).backward()
