# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

rnn, out = nn.LSTM(2, 6, batch_first=True), nn.Linear(6, 2)
opt = torch.optim.Adam([*rnn.parameters(), *out.parameters()])
for _ in range(2):
    x = pad_sequence([torch.randn(n, 2) for n in (2, 6, 3)], batch_first=True)
    mask = torch.arange(x.shape[1])[None] < torch.tensor([2, 6, 3])[:, None]
    loss = nn.functional.mse_loss(out(rnn(x)[0])[mask], x[mask])
    opt.zero_grad()
    loss.backward()
    opt.step()
