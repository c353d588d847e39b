"""Fine-tuning: the backbone is frozen and the head trains; later one block is thawed."""

import torch
import torch.nn.functional as F
from torch import nn

backbone = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU()
)
head = nn.Linear(8, 10)
backbone.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)


def step() -> None:
    images, labels = torch.rand(6, 1, 8, 8), torch.randint(10, (6,))
    optimizer.zero_grad()
    F.cross_entropy(head(backbone(images).mean((2, 3))), labels).backward()
    optimizer.step()


for _ in range(3):
    step()
backbone[3].requires_grad_(True)
optimizer.add_param_group({"params": backbone[3].parameters(), "lr": 1e-3})
for _ in range(3):
    step()
