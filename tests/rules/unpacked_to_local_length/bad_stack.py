# unpacked-to-local-length: expected at line 9
import contextlib

import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence


def unpack(items):
    return pad_packed_sequence(pack_sequence(items))[0].sum(-1)


with contextlib.suppress(RuntimeError):
    torch.stack([unpack([torch.ones(3, 1), torch.ones(2, 1)]), unpack([torch.ones(2, 1), torch.ones(1, 1)])])
