# stale-gradient: nothing to find
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(4):
    (w * 2).sum().backward()
    w.data -= 0.1 * w.grad.data
    w.grad.data.zero_()
