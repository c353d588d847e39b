# parameter-without-optimizer: expected at line 14
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.heads = {name: nn.Linear(4, 1) for name in ("a", "b")}

    def forward(self, x):
        h = self.body(x)
        return sum(head(h).mean() for head in self.heads.values())


Heads()(torch.ones(2, 3)).backward()
