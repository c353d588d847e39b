# grad-mode-leak: expected at line 8
import torch
from torch import nn


class Source:
    def stream(self):
        with torch.no_grad():
            while True:
                yield torch.rand(3)


layer = nn.Linear(3, 1)
stream = Source().stream()
for _ in range(2):
    layer(next(stream)).sum()
