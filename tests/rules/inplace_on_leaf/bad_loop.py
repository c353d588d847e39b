# inplace-on-leaf: expected at line 9
import contextlib

import torch

ws = [torch.ones(2, requires_grad=True) for _ in range(3)]
with contextlib.suppress(RuntimeError):
    for w in ws:
        w -= 0.1
