# impure-branch: expected at line 17
import contextlib

import torch
from torch import nn


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        def unchanged(v):
            return v

        return torch.cond(x.sum() > 0, lambda v: v * self.scale, unchanged, (x,))


with contextlib.suppress(Exception):
    Skip()(torch.ones(1, 2))
