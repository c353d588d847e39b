# gradient-vanishes: nothing to find
import torch

w = (torch.eye(3) * 0.05).requires_grad_()
h = torch.ones(1, 3)
for _ in range(12):
    h = h + torch.tanh(h @ w)
h.sum().backward()
