# invariant-in-loop: expected at line 7
import torch

keys, w = torch.randn(64, 32), torch.randn(32, 16, requires_grad=True)
h = torch.zeros(64, 16)
for _ in range(5):
    h = torch.tanh(keys @ w + h)
h.sum().backward()
