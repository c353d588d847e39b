# host-read-in-loop: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
for _ in range(15):
    loss = model(torch.ones(2, 3)).mean()
    loss.backward()
    print(loss.item())
