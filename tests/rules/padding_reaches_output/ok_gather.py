# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

sequences = [torch.randn(n, 3) for n in (5, 2, 4)]
lengths = torch.tensor([5, 2, 4])
rnn = nn.LSTM(3, 4, batch_first=True)
out, _ = rnn(pad_sequence(sequences, batch_first=True))
out[torch.arange(3), lengths - 1].sum().backward()
