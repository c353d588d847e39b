# mean-of-means: nothing to find
import torch

w = torch.ones(2, requires_grad=True)
total = 12
for rows in (3, 9):
    ((torch.ones(rows, 2) @ w - 1).pow(2).sum() / total).backward()
