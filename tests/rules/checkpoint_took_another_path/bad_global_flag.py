# checkpoint-took-another-path: expected at line 14
import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer, flags = nn.Linear(2, 2), {"extra": True}


def block(x):
    y = layer(x)
    if flags["extra"]:
        y = torch.exp(y)
    return y * y


out = checkpoint(block, torch.ones(1, 2, requires_grad=True), use_reentrant=False)
flags["extra"] = False
with contextlib.suppress(RuntimeError):
    out.sum().backward()
