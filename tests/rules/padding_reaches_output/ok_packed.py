# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

gru = nn.GRU(2, 3)
_, state = gru(pack_sequence([torch.ones(5, 2), torch.ones(3, 2)]))
state[-1].sum().backward()
