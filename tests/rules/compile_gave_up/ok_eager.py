# compile-gave-up: nothing to find
import torch


def grow(x):
    for _ in range(4):
        x = x * 1.5
        if x.norm() > 10:
            x = x / 10
    return x


grow(torch.ones(3))
