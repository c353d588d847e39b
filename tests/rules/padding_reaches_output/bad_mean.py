# padding-reaches-output: expected at line 13
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(10, 4), nn.Linear(4, 4)

    def forward(self, tokens):
        h = self.fc(self.table(tokens)).relu()
        return h.mean(dim=1)


tokens = nn.utils.rnn.pad_sequence([torch.arange(1, n) for n in (4, 7)], batch_first=True)
Encoder()(tokens).sum().backward()
