# padding-reaches-output: expected at line 9
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

sequences = [torch.randn(n, 3) for n in (5, 2, 4)]
rnn, head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)
out, _ = rnn(pad_sequence(sequences, batch_first=True))
head(out[:, -1, :]).sum().backward()
