# unpacked-to-local-length: expected at line 11
import contextlib

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

x, lengths = torch.randn(4, 6, 2), [6, 5, 3, 1]
parts = []
for i in (0, 2):
    packed = pack_padded_sequence(x[i : i + 2], lengths[i : i + 2], batch_first=True)
    parts.append(pad_packed_sequence(packed, batch_first=True)[0])
with contextlib.suppress(RuntimeError):
    torch.cat(parts)
