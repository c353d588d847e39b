# compiled-again: expected at line 5
import torch


@torch.compile(backend="eager", dynamic=False)
def scaled(x, name):
    return x * len(name)


for n in range(5):
    scaled(torch.ones(2), "a" * n)
