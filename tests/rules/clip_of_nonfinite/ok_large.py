# clip-of-nonfinite: nothing to find
import torch
from torch import nn

w = torch.ones(3, requires_grad=True)
(w * 1e10).sum().backward()
nn.utils.clip_grad_norm_([w], 1.0)
