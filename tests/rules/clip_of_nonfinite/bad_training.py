# clip-of-nonfinite: expected at line 12
import torch
from torch import nn

model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x):
    opt.zero_grad()
    model(x).exp().sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


for scale in (1.0, 1e4):
    step(torch.full((1, 2), scale) * model.weight.detach().sign())
