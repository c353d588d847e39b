# loss-without-graph: nothing to find
import torch
from torch import nn

x = torch.ones(2, 3).requires_grad_()
nn.Linear(3, 1)(x).sum().backward()
