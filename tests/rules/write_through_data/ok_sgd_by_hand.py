# write-through-data: nothing to find
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(3):
    w.grad = None
    (w * w).sum().backward()
    w.data -= 0.1 * w.grad
