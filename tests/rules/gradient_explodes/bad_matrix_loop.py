# gradient-explodes: expected at line 11
import torch
from torch import nn

lin = nn.Linear(16, 16, bias=False)
nn.init.normal_(lin.weight, std=1.0)


def unroll(state, n):
    for _ in range(n):
        state = lin(state) + 0.1
    return state


y = unroll(torch.randn(2, 16), 20)
y.pow(2).mean().backward()
