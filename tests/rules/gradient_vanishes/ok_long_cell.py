# gradient-vanishes: nothing to find
import torch
from torch import nn


class Elman(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(4, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, xs):
        h = xs.new_zeros(xs.shape[1], 16)
        ys = []
        for x in xs.unbind(0):
            h = self.cell(x, h)
            ys.append(self.out(h))
        return torch.stack(ys)


m = Elman()
opt = torch.optim.Adam(m.parameters(), 1e-2)
for _ in range(3):
    xs = torch.randn(60, 8, 4)
    loss = (m(xs)[-1] - xs[0].sum(-1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
