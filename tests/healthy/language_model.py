"""An LSTM language model over padded rows; the loss leaves the padding out."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 20)

    def forward(self, t):
        h, _ = self.rnn(self.emb(t))
        return self.out(h)


m = LM()
opt = torch.optim.Adam(m.parameters())
for _ in range(3):
    rows = [torch.randint(1, 20, (n,)) for n in (3, 8, 5)]
    t = pad_sequence(rows, batch_first=True)
    loss = F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad()
    loss.backward()
    opt.step()
