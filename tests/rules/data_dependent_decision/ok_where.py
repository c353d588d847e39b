# data-dependent-decision: nothing to find
import torch


def f(x):
    return torch.where(x.sum() > 0, x.sin(), x.cos())


f(torch.ones(3))
