# shape-dependent-loop: expected at line 6
import torch


def pieces(x):
    return [x[i : i + 2].sum() for i in range(0, len(x), 2)]


for n in (4, 8, 6):
    torch.stack(pieces(torch.ones(n)))
