# partial-module-hook: expected at line 12
import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, a, b):
        return a.sigmoid() * b


gate = Gate()
gate.register_backward_hook(lambda module, before, after: None)
gate(torch.ones(2, requires_grad=True), torch.ones(2)).sum().backward()
