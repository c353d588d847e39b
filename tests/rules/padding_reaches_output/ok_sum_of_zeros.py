# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

emb, out = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 2)
opt = torch.optim.SGD([*emb.parameters(), *out.parameters()], 0.1)
for _ in range(2):
    rows = [torch.randint(1, 20, (n,)) for n in (3, 8, 5)]
    t = pad_sequence(rows, batch_first=True)
    n = torch.tensor([len(r) for r in rows])[:, None]
    loss = nn.functional.cross_entropy(out(emb(t).sum(1) / n), torch.tensor([0, 1, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
