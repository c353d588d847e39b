# batchable-calls: expected at line 12
import torch


def score(x):
    h = torch.zeros(())
    for v in x:
        h = torch.tanh(h + v)
    return h


torch.stack([score(torch.randn(n)) for n in (3, 5, 2, 4)])
