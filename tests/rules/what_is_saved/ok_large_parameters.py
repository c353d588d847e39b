# what-is-saved: nothing to find
import torch
from torch import nn

table = nn.Embedding(20000, 32)
table(torch.tensor([1, 2, 3])).sum().backward()
