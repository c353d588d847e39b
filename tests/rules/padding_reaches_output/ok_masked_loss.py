# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

rnn, out = nn.LSTM(2, 6, batch_first=True), nn.Linear(6, 2)
opt = torch.optim.Adam([*rnn.parameters(), *out.parameters()])
for _ in range(2):
    rows = [torch.randn(n, 2) for n in (2, 6, 3)]
    x = pad_sequence(rows, batch_first=True)
    mask = torch.arange(x.shape[1])[None] < torch.tensor([2, 6, 3])[:, None]
    err = (out(rnn(x)[0]) - x).pow(2).sum(-1)
    loss = (err * mask).sum() / mask.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
