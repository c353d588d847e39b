"""Four equal micro-batches for one update; the last window is short and so is its divisor."""

import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(80, 5), torch.randint(2, (80,))
for _ in range(2):
    optimizer.zero_grad()
    for i, rows in enumerate(torch.arange(80).split(8)):
        loss = F.cross_entropy(model(x[rows]), y[rows]) / 4
        loss.backward()
        if i % 4 == 3 or i == 9:
            optimizer.step()
            optimizer.zero_grad()
