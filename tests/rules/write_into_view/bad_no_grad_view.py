# write-into-view: expected at line 15
import contextlib

import torch


def head(x):
    with torch.no_grad():
        return x[:1]


x = torch.ones(3, requires_grad=True) * 2
first = head(x)
with contextlib.suppress(RuntimeError):
    first.mul_(3)
