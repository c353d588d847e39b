# optimizer-of-copy: expected at line 8
import contextlib

import torch
from torch import nn

base = nn.Linear(2, 2)
view = base.weight.reshape(-1)
opt = torch.optim.SGD(base.parameters(), lr=0.1)
with contextlib.suppress(ValueError):
    opt.add_param_group({"params": [view]})
