"""A GRU over packed sequences of different length, trained with Adam and clipping."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_sequence


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 12, batch_first=True)
        self.out = nn.Linear(12, 3)

    def forward(self, words: list[torch.Tensor]) -> torch.Tensor:
        packed = pack_sequence([self.table(each) for each in words], enforce_sorted=False)
        return self.out(self.rnn(packed)[1][-1])


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(8):
    words = [torch.randint(20, (int(n),)) for n in torch.randint(2, 9, (5,))]
    labels = torch.tensor([int(each.sum()) % 3 for each in words])
    optimizer.zero_grad()
    loss = F.cross_entropy(model(words), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
