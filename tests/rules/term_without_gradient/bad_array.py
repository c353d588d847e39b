# term-without-gradient: expected at line 21
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 3)
        self.value = nn.Linear(6, 1)

    def forward(self, s):
        return torch.softmax(self.body(s), -1), self.value(s)


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), 1e-3)


def entropy_of(p):
    return -torch.from_numpy((p * p.log()).sum(-1).detach().numpy()).mean()


for _ in range(3):
    s = torch.randn(5, 6)
    p, v = policy(s)
    loss = (v.squeeze(-1) - 1.0).pow(2).mean() + 0.1 * entropy_of(p) - p[:, 0].log().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
