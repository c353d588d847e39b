# optimizer-step-before-backward: expected at line 13
import contextlib

import torch
from torch import nn

trunk, a, b = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.SGD([*trunk.parameters(), *a.parameters(), *b.parameters()], lr=0.1)


def update(loss):
    loss.backward(retain_graph=True)
    opt.step()


h = trunk(torch.randn(4, 3)).relu()
first, second = a(h).mean(), b(h.tanh()).pow(2).mean()
with contextlib.suppress(RuntimeError):
    update(first)
    update(second)
