# inplace-on-leaf: nothing to find
import torch

w = torch.zeros(4)
w[1] = 2.0
w.requires_grad_()
(w * 2).sum().backward()
