# inplace-on-saved-tensor: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
y = x + 1
y += 1
y.sum().backward()
