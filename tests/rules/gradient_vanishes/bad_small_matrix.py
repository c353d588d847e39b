# gradient-vanishes: expected at line 7
import torch

w = (torch.eye(3) * 0.05).requires_grad_()
h = torch.ones(1, 3)
for _ in range(12):
    h = torch.tanh(h @ w + 0.1)
h.sum().backward()
