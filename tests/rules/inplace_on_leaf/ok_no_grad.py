# inplace-on-leaf: nothing to find
import torch

w = torch.zeros(4, requires_grad=True)
with torch.no_grad():
    w[1] = 2.0
(w * 2).sum().backward()
