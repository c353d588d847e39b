# gradient-explodes: expected at line 7
import torch

w = torch.full((1, 1), 30.0, requires_grad=True)
h = torch.ones(1, 1)
for _ in range(8):
    h = h @ w
h.sum().backward()
