# unpacked-to-local-length: nothing to find
import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

torch.cat([pad_packed_sequence(pack_sequence([torch.ones(3, 1)]))[0] for _ in range(2)])
