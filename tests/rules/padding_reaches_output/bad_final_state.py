# padding-reaches-output: expected at line 15
import torch
from torch import nn


def batch(rows):
    x = torch.zeros(len(rows), max(map(len, rows)), 2)
    for i, row in enumerate(rows):
        x[i, : len(row)] = row
    return x


gru, head = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 1)
_, state = gru(batch([torch.ones(3, 2), torch.ones(5, 2)]))
head(state[-1]).sum().backward()
