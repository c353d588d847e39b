# term-without-gradient: expected at line 7
import torch
from torch import nn

actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
states = torch.randn(6, 3)
scores = [actor(s).log_softmax(0)[0].item() for s in states]
policy = torch.tensor(scores)
loss = critic(states).pow(2).mean() - policy.mean()
loss.backward()
