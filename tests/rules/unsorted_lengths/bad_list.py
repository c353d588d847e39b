# unsorted-lengths: expected at line 9
import contextlib

import torch
from torch import nn

x = torch.randn(3, 4, 2)
with contextlib.suppress(RuntimeError):
    nn.utils.rnn.pack_padded_sequence(x, [2, 4, 3], batch_first=True)
