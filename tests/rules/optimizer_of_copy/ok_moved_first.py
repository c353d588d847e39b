# optimizer-of-copy: nothing to find
import torch

w = (torch.randn(4) * 0.01).requires_grad_()
torch.optim.Adam([w])
