# partial-module-hook: nothing to find
import torch
from torch import nn

layer = nn.ReLU()
layer.register_backward_hook(lambda module, before, after: None)
layer(torch.ones(2, requires_grad=True)).sum().backward()
