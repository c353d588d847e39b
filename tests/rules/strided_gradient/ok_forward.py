# strided-gradient: nothing to find
import torch

x = torch.ones(6, requires_grad=True)
torch.as_strided(x, (2, 3), (3, 1)).sum().backward()
