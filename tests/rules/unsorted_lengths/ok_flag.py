# unsorted-lengths: nothing to find
import torch
from torch import nn

nn.utils.rnn.pack_padded_sequence(torch.randn(3, 4, 2), [2, 4, 3], batch_first=True, enforce_sorted=False)
