# backward-through-freed-graph: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
y = x.exp()
y.sum().backward(retain_graph=True)
y.pow(2).sum().backward()
