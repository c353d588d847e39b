# what-is-saved: expected at line 6
import torch

x = torch.randn(64, 512, requires_grad=True)
for _ in range(10):
    x = torch.exp(-x)
x.sum().backward()
