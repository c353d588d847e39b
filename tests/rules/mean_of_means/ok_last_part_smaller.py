# mean-of-means: nothing to find
import torch
from torch import nn

net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), 0.1)
data = [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (8, 8, 8, 8, 8, 8, 5)]
for _ in range(2):
    for i, (x, y) in enumerate(data):
        loss = nn.functional.cross_entropy(net(x), y) / 2
        loss.backward()
        if (i + 1) % 2 == 0 or i + 1 == len(data):
            opt.step()
            opt.zero_grad()
