# mean-of-means: expected at line 8
import torch

w = torch.ones(2, requires_grad=True)


def error(x):
    return (x @ w - 1).pow(2).mean()


for rows in (3, 9):
    error(torch.ones(rows, 2)).div(2).backward()
