# loss-is-no-number: expected at line 9
import contextlib

import torch

x = torch.ones(3, requires_grad=True)
y = x * 2
with contextlib.suppress(RuntimeError):
    y.backward()
