# gradient-vanishes: nothing to find
import torch

w = (torch.eye(3) * 0.05).requires_grad_()
h = torch.ones(1, 3)
for _ in range(3):
    h = torch.tanh(h @ w + 0.1)
h.sum().backward()
