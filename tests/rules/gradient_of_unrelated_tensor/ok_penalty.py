# gradient-of-unrelated-tensor: nothing to find
import torch
from torch import nn

model = nn.Linear(3, 1)
x = torch.ones(2, 3, requires_grad=True)
(torch.autograd.grad(model(x).sum(), x, create_graph=True)[0].norm() - 1).pow(2).backward()
