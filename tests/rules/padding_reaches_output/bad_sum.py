# padding-reaches-output: expected at line 15
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.proj(x))
        return self.out(h.sum(dim=1))


net = Bag()
for _ in range(2):
    x = pad_sequence([torch.randn(n, 3) for n in (2, 5, 4)], batch_first=True)
    net(x).square().mean().backward()
