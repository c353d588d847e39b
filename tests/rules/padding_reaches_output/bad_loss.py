# padding-reaches-output: expected at line 21
import torch
import torch.nn.functional as F
from torch import nn


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.GRU(2, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        return self.dec(self.enc(x)[0])


net = Auto()
opt = torch.optim.Adam(net.parameters())
for _ in range(2):
    rows = [torch.randn(n, 2) for n in (2, 6, 3)]
    x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    loss = F.mse_loss(net(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
