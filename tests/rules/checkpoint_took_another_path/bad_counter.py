# checkpoint-took-another-path: expected at line 16
import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

calls = []
layer = nn.Linear(2, 2)


def block(x):
    calls.append(1)
    y = layer(x)
    if len(calls) == 1:
        y = y.sigmoid()
    return y * 3


with contextlib.suppress(RuntimeError):
    checkpoint(block, torch.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()
