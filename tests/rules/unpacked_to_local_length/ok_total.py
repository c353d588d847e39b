# unpacked-to-local-length: nothing to find
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

x, lengths = torch.randn(4, 6, 2), [6, 5, 3, 1]
torch.cat(
    [
        pad_packed_sequence(pack_padded_sequence(x[i : i + 2], lengths[i : i + 2], True), True, total_length=6)[0]
        for i in (0, 2)
    ]
)
