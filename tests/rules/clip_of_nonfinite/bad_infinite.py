# clip-of-nonfinite: expected at line 7
import torch
from torch import nn

w = torch.ones(3, requires_grad=True)
w.grad = torch.tensor([1.0, float("inf"), 2.0])
nn.utils.clip_grad_norm_([w], 1.0)
