# unsorted-lengths: expected at line 14
import contextlib

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.rnn(packed)[1]


with contextlib.suppress(RuntimeError):
    Encoder()(torch.randn(2, 4, 2), torch.tensor([3, 4]))
