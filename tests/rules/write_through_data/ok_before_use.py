# write-through-data: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
x.data[0] = 5
x.exp().sum().backward()
