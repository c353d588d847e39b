# impure-branch: expected at line 6
import torch


def clip(flag, x):
    return torch.cond(flag, lambda v: v.clamp_(0, 1), lambda v: v + 0, (x,))


try:
    clip(torch.tensor(True), torch.randn(3))
except Exception:
    pass
