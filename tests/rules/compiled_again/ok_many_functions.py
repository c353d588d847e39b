# compiled-again: nothing to find
import torch

FUNCTIONS = [torch.compile(each, backend="eager") for each in (torch.sin, torch.cos)]


@torch.compile(backend="eager")
def one(x):
    return x + 1


@torch.compile(backend="eager")
def two(x):
    return x + 2


for each in (one, two):
    each(torch.ones(2))
