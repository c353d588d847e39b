# stale-gradient: expected at line 14
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)
        self.opt = torch.optim.Adam([*self.body.parameters(), *self.head.parameters()])

    def step(self, x):
        self.head.zero_grad()
        self.head(self.body(x).relu()).mean().backward()
        self.opt.step()


trainer = Trainer()
for _ in range(4):
    trainer.step(torch.ones(2, 3))
