# gradient-explodes: nothing to find
import torch
import torch.nn.functional as F

x = torch.ones(3, requires_grad=True)
F.normalize(x, dim=0).sum().backward()
