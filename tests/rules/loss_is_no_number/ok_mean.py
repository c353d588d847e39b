# loss-is-no-number: nothing to find
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(2, 1)
F.mse_loss(model(torch.ones(4, 2)), torch.zeros(4, 1)).backward()
