# gradient-explodes: expected at line 6
import torch
import torch.nn.functional as F

x = torch.zeros(3, requires_grad=True)
F.normalize(x, dim=0).sum().backward()
