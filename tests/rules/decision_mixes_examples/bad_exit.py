# decision-mixes-examples: expected at line 12
import torch
from torch import nn

layers, head = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 2)


def model(x):
    for layer in layers:
        x = layer(x).tanh()
        confidence = head(x).softmax(1).amax(1)
        if confidence.mean().item() > 0.999:
            break
    return head(x)


model(torch.randn(5, 4)).sum().backward()
