# nan-born-in-backward: nothing to find
import torch

x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)
safe = torch.where(x > 1, x, torch.ones_like(x))
torch.where(x > 1, safe.log(), x).sum().backward()
