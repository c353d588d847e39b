"""A vector-quantised autoencoder: straight-through gradients, a codebook and a commitment loss."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(4, 6)
        self.codes = nn.Embedding(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.encode(x)
        nearest = torch.cdist(z, self.codes.weight).argmin(1)
        q = self.codes(nearest)
        codebook, commitment = F.mse_loss(q, z.detach()), F.mse_loss(z, q.detach())
        out = self.decode(z + (q - z).detach())
        return F.mse_loss(out, x) + codebook + 0.25 * commitment


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(6):
    loss = model(torch.randn(10, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
