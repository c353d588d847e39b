# write-through-data: expected at line 8
import torch

w = torch.ones(2, requires_grad=True)
fast = w * 1
for _ in range(2):
    (g,) = torch.autograd.grad((fast - 3).pow(2).sum(), fast, create_graph=True)
    fast.data -= 0.1 * g
fast.pow(2).sum().backward()
