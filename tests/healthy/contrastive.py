"""Two views, a predictor on one side and a stop-gradient on the other (SimSiam), and a queue of old keys."""

import torch
import torch.nn.functional as F
from torch import nn

encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
predictor = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05)
queue = F.normalize(torch.randn(12, 8), dim=1)


def distance(p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return -F.cosine_similarity(p, z.detach(), dim=1).mean()


for _ in range(5):
    x = torch.randn(8, 6)
    a, b = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
    loss = distance(predictor(a), b) / 2 + distance(predictor(b), a) / 2
    keys = F.normalize(b.detach(), dim=1)
    loss = loss + 0.1 * torch.logsumexp(F.normalize(a, dim=1) @ queue.T / 0.2, 1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue = torch.cat([queue, keys])[-12:]
