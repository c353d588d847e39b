# gradient-of-copy: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
y = x.exp() * 2
y.sum().backward()
assert y.grad is None and x.grad is not None
