# stale-gradient: expected at line 8
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(4):
    (w * torch.arange(3.0)).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
