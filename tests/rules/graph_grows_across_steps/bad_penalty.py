# graph-grows-across-steps: expected at line 9
import torch

w = torch.ones(3, requires_grad=True)
smooth = torch.zeros(3)


def blend(old, new):
    return old * 0.5 + new.sin()


for _ in range(5):
    smooth = blend(smooth, w)
    (smooth - 1).pow(2).sum().backward(retain_graph=True)
