# optimizer-of-copy: nothing to find
import torch
from torch import nn

torch.optim.Adam(nn.Linear(2, 2).double().parameters())
