# gradient-explodes: nothing to find
import torch

w = torch.full((1, 1), 1.1, requires_grad=True)
h = torch.ones(1, 1)
for _ in range(12):
    h = h @ w
h.sum().backward()
