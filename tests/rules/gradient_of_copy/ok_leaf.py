# gradient-of-copy: nothing to find
import torch

x = torch.ones(3, dtype=torch.float64, requires_grad=True)
(x * 2).sum().backward()
assert x.grad is not None
