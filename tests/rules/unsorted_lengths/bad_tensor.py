# unsorted-lengths: expected at line 9
import contextlib

import torch
from torch import nn


def pack(x, lengths):
    return nn.utils.rnn.pack_padded_sequence(x, lengths)


with contextlib.suppress(RuntimeError):
    pack(torch.randn(5, 2, 1), torch.tensor([1, 5]))
