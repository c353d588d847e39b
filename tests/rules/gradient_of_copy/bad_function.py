# gradient-of-copy: expected at line 7
import torch


def prepare(n):
    x = torch.randn(n, requires_grad=True)
    return x.to(torch.float16)


h = prepare(4)
h.float().pow(2).sum().backward()
print(h.grad)
