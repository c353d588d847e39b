# gradient-of-copy: expected at line 4
import torch

x = torch.ones(3, requires_grad=True).double()
(x * 2).sum().backward()
assert x.grad is None
