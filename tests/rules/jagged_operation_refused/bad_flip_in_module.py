# jagged-operation-refused: expected at line 10
import contextlib

import torch
from torch import nn


class Reverse(nn.Module):
    def forward(self, x):
        return torch.flip(x, [1])


x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
with contextlib.suppress(NotImplementedError, ValueError):
    Reverse()(x)
