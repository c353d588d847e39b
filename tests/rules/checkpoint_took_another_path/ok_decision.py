# checkpoint-took-another-path: nothing to find
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer = nn.Linear(2, 2)


def block(x):
    y = layer(x)
    return y.relu() if y.sum() > 0 else y.tanh()


checkpoint(block, torch.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()
