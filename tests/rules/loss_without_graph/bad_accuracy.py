# loss-without-graph: expected at line 8
import contextlib

import torch
from torch import nn

model = nn.Linear(3, 2)
pred = model(torch.randn(5, 3)).argmax(1)
with contextlib.suppress(RuntimeError):
    (pred != 1).float().mean().backward()
