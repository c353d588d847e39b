# data-dependent-decision: nothing to find
import torch


def f(x):
    assert (x > 0).all()
    return x.log()


f(torch.ones(3))
