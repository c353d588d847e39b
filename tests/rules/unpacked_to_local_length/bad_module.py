# unpacked-to-local-length: expected at line 16
import contextlib

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3, batch_first=True)

    def forward(self, x, lengths):
        out, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True))
        return pad_packed_sequence(out, batch_first=True)[0]


net = Encoder()
with contextlib.suppress(RuntimeError):
    torch.cat([net(torch.randn(2, 5, 2), [5, 2]), net(torch.randn(2, 5, 2), [4, 2])])
