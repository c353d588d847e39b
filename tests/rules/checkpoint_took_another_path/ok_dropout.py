# checkpoint-took-another-path: nothing to find
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
checkpoint(layer, torch.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()
