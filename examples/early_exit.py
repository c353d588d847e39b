"""An image network with exits: an image leaves at the first exit that is sure of it (scikit-learn's digits).

Nothing is simulated: an image that has left costs nothing more.  `plait.batch` runs those that stay together.
"""

from __future__ import annotations

from collections import Counter

import torch
import torch.nn.functional as F
from _compare import compare, threads
from sklearn.datasets import load_digits
from torch import Tensor, nn

import plait

SURE = 0.9


class Exits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU()) for a, b in ((1, 8), (8, 16), (16, 32))
        )
        self.exits = nn.ModuleList(nn.Linear(n * 4, 10) for n in (8, 16, 32))
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, image: Tensor) -> tuple[Tensor, int]:
        x = image
        for depth, (block, leave) in enumerate(zip(self.blocks, self.exits)):
            x = block(x)
            scores = leave(self.pool(x).flatten())
            if depth == len(self.exits) - 1 or torch.softmax(scores, 0).max() > SURE:
                break
        return scores, depth

    def every_exit(self, image: Tensor, y: Tensor) -> Tensor:
        """For training: all exits learn."""
        x, total = image, 0.0
        for block, leave in zip(self.blocks, self.exits):
            x = block(x)
            total = total + F.cross_entropy(leave(self.pool(x).flatten()), y)
        return total


def main() -> None:
    threads()
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    target = torch.tensor(digits.target)
    model = Exits()
    train = plait.batch(model.every_exit)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        pick = torch.randint(0, 1400, (128,))
        optimizer.zero_grad()
        train(images[pick], target[pick]).mean().backward()
        optimizer.step()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x)[0], y)

    compare(loss, (list(images[1400:1528]), list(target[1400:1528])), model)
    batched = plait.batch(model)
    with torch.no_grad():
        scores, depth = batched(images[1400:])
    right = scores.argmax(1) == target[1400:]
    print(f"right on unseen digits: {right.float().mean():.1%}")
    for k, n in sorted(Counter(depth).items()):
        here = torch.tensor([d == k for d in depth])
        print(f"  exit {k}: {n} images, {right[here].float().mean():.1%} right")


if __name__ == "__main__":
    main()
