# gradient-of-unrelated-tensor: nothing to find
import torch

a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
torch.autograd.grad(a.sum(), [a, b], allow_unused=True)
