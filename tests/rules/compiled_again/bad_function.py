# compiled-again: expected at line 7
import torch


def read(x):
    h = torch.zeros(3)
    for t in range(len(x)):
        h = torch.tanh(x[t] + h)
    return h


compiled = torch.compile(read, backend="eager", dynamic=False)
for n in range(2, 7):
    compiled(torch.ones(n, 3))
