# invariant-in-loop: nothing to find
import torch

a, b = torch.randn(3, 3), torch.randn(3, 3)
h = torch.zeros(3, 3)
for _ in range(5):
    h = h + a @ b
