# checkpoint-took-another-path: nothing to find
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer = nn.Linear(2, 2)
checkpoint(lambda x: layer(x).tanh(), torch.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()
