# optimizer-of-copy: nothing to find
import torch

torch.optim.SGD([torch.zeros(3, dtype=torch.float64, requires_grad=True)], lr=0.1)
