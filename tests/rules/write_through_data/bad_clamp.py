# write-through-data: expected at line 6
import torch

x = torch.randn(4, requires_grad=True)
y = x.tanh()
y.data.clamp_(-0.5, 0.5)
y.sum().backward()
