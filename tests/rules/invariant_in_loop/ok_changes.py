# invariant-in-loop: nothing to find
import torch

w, h = torch.randn(64, 64), torch.randn(64, 64)
for _ in range(5):
    h = torch.tanh(h @ w)
