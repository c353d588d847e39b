# gradient-of-copy: nothing to find
import torch

x = torch.ones(3, requires_grad=True).double()
x.retain_grad()
(x * 2).sum().backward()
assert x.grad is not None
