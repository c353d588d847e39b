# graph-grows-across-steps: nothing to find
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(4):
    y = w.exp()
    y.sum().backward(retain_graph=True)
    y.pow(2).sum().backward()
