# padding-reaches-output: nothing to find
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

rnn, out = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)
opt = torch.optim.SGD([*rnn.parameters(), *out.parameters()], 0.1)
for _ in range(2):
    rows = [torch.randn(n, 3) for n in (3, 8, 5)]
    lengths = torch.tensor([3, 8, 5])
    packed = pack_padded_sequence(pad_sequence(rows, batch_first=True), lengths, batch_first=True, enforce_sorted=False)
    h, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True)
    loss = nn.functional.cross_entropy(out(h.sum(1) / lengths[:, None]), torch.tensor([0, 1, 0]))
    opt.zero_grad()
    loss.backward()
    opt.step()
