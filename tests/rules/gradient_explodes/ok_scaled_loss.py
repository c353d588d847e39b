# gradient-explodes: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
(x * 65536).sum().backward()
