# nan-born-in-backward: expected at line 5
import torch

x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)
torch.where(x > 1, torch.log(x - 0.0) * 0 + x.log(), x).sum().backward()
