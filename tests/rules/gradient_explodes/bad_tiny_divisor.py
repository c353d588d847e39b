# gradient-explodes: expected at line 9
import torch
from torch import nn


class Scale(nn.Module):
    def forward(self, x):
        norm = (x * x).sum().clamp_min(1e-20)
        return x / norm


Scale()(torch.full((3,), 1e-12, requires_grad=True)).sum().backward()
