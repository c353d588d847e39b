# grad-mode-leak: expected at line 7
import torch
from torch import nn


def rows(n):
    torch.set_grad_enabled(False)
    for i in range(n):
        yield torch.full((2,), float(i))
    torch.set_grad_enabled(True)


def scores(layer):
    return [layer(row) for row in rows(3)]


scores(nn.Linear(2, 1))
