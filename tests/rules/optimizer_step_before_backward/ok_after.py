# optimizer-step-before-backward: nothing to find
import torch
from torch import nn

trunk, a, b = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.SGD([*trunk.parameters(), *a.parameters(), *b.parameters()], lr=0.1)
h = trunk(torch.randn(4, 3)).relu()
a(h).mean().backward(retain_graph=True)
b(h).mean().backward()
opt.step()
