# write-into-view: nothing to find
import torch

x = torch.ones(3, 2, requires_grad=True) * 1
for i in range(3):
    x[i].add_(1)
x.sum().backward()
