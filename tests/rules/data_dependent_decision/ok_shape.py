# data-dependent-decision: nothing to find
import torch


def f(x):
    return x.sin() if x.shape[0] > 2 else x.cos()


f(torch.ones(3))
