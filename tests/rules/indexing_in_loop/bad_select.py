# indexing-in-loop: expected at line 6
import torch


def rows(x):
    return [x.select(0, i).tanh() for i in range(len(x))]


x = torch.randn(50, 2, requires_grad=True)
torch.stack(rows(x * 2)).sum().backward()
