# impure-branch: expected at line 8
import contextlib

import torch


def clip(flag, x):
    return torch.cond(flag, lambda v: v.clamp_(0, 1), lambda v: v + 0, (x,))


with contextlib.suppress(Exception):
    clip(torch.tensor(True), torch.randn(3))
