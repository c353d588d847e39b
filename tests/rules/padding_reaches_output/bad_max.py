# padding-reaches-output: expected at line 16
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.cls = nn.Linear(8, 2)

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        pooled = h.max(dim=1).values
        return self.cls(pooled)


net = Tagger()
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    rows = [torch.randint(1, 20, (n,)) for n in (3, 7, 5)]
    batch = pad_sequence(rows, batch_first=True)
    loss = nn.functional.cross_entropy(net(batch), torch.tensor([0, 1, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
