# term-without-gradient: nothing to find
import torch
from torch import nn

actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
s = torch.randn(6, 3)
value = critic(s).squeeze(1)
logp = actor(s).log_softmax(1)[:, 0]
(-(logp * (1 - value.detach())).mean() + (1 - value).pow(2).mean()).backward()
