# gradient-of-unrelated-tensor: nothing to find
import torch

a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
z = torch.stack([a, b])
torch.autograd.grad(z.prod(), z)
