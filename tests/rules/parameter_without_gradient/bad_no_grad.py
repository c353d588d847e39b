# parameter-without-gradient: expected at line 20
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


enc, head = Encoder(), nn.Linear(4, 2)
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], lr=0.1)


def features(x):
    with torch.no_grad():
        z = enc(x)
        return z.mean(-1)


for _ in range(4):
    x = torch.randn(6, 2, 9)
    y = torch.randint(0, 2, (6,))
    loss = nn.functional.cross_entropy(head(features(x)), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
