# container-keeps-graph: expected at line 14
import torch
from torch import nn

history = {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).tanh()


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    opt.zero_grad()
    out = net(torch.randn(4, 3))
    out.sum().backward()
    opt.step()
    history[step] = out
