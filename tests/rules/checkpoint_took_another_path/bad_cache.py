# checkpoint-took-another-path: expected at line 16
import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.cache = nn.Linear(2, 2), []

    def forward(self, x):
        self.cache.append(x)
        return self.fc(torch.cat(self.cache)).tanh().sum()


with contextlib.suppress(RuntimeError):
    checkpoint(Attend(), torch.ones(1, 2, requires_grad=True), use_reentrant=False).backward()
