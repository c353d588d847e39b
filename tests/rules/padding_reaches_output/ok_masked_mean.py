# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

lengths = torch.tensor([4, 7])
x = pad_sequence([torch.randn(int(n), 3) for n in lengths], batch_first=True)
h = nn.Linear(3, 4)(x).relu()
mask = (torch.arange(7)[None] < lengths[:, None]).float()[..., None]
((h * mask).sum(1) / mask.sum(1)).sum().backward()
