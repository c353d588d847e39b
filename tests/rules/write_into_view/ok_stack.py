# write-into-view: nothing to find
import torch

x = torch.ones(3, 2, requires_grad=True) * 1
torch.stack([row * 2 for row in x]).sum().backward()
