# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 2)

    def forward(self, t):
        h, _ = self.rnn(self.emb(t))
        h = h.masked_fill((t == 0).unsqueeze(-1), float("-inf"))
        return self.out(h.max(1).values)


m = Net()
opt = torch.optim.Adam(m.parameters())
for _ in range(3):
    t = pad_sequence([torch.randint(1, 20, (n,)) for n in (3, 8, 5)], batch_first=True)
    loss = nn.functional.cross_entropy(m(t), torch.tensor([0, 1, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
