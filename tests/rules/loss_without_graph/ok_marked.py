# loss-without-graph: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
y = x
for _ in range(3):
    y = y * 2
y.sum().backward()
