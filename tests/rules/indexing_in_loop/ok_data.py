# indexing-in-loop: nothing to find
import torch

x = torch.randn(40, 3)
w = torch.ones(3, requires_grad=True)
sum((x[t] * w).sum() for t in range(40)).backward()
