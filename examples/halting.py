"""Adaptive computation: every example thinks until it is sure, then stops by itself.

The task: are there more ones in the first half of some bits than in the second?  The network reads the bits again and
again and adds up a halting probability; the loop ends when that reaches 0.99.  Each example takes its own number of steps.
"""  # noqa: E501

from __future__ import annotations

import torch
import torch.nn.functional as F
from _compare import compare, threads
from torch import Tensor, nn

import plait

BITS, WIDTH, MOST, PRICE = 12, 32, 12, 0.001


class Thinker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look, self.state = nn.Linear(BITS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.halt, self.head = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 2)
        nn.init.constant_(self.halt.bias, -1.5)

    @plait.cell
    def think(self, x: Tensor, s: Tensor, y: Tensor, sure: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = torch.tanh(self.look(x) + self.state(s))
        q = torch.sigmoid(self.halt(s))
        return s, y + q * s, sure + q

    def forward(self, bits: Tensor) -> tuple[Tensor, Tensor, int]:
        s = y = torch.zeros(WIDTH)
        sure = torch.zeros(1)
        for steps in range(1, MOST + 1):
            s, more, total = self.think(bits, s, y, sure)
            if total > 0.99 or steps == MOST:
                break
            y, sure = more, total
        rest = 1 - sure
        return self.head(y + rest * s), (steps + rest).sum(), steps


def main() -> None:
    threads()
    bits = (torch.rand(2048, BITS) > 0.5).float()
    more = (bits[:, : BITS // 2].sum(1) > bits[:, BITS // 2 :].sum(1)).long()
    model = Thinker()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        out, cost, _ = model(x)
        return F.cross_entropy(out, y) + PRICE * cost

    compare(loss, (list(bits[:128]), list(more[:128])), model)
    batched, outputs = plait.batch(loss), plait.batch(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(61):
        pick = torch.randint(0, 1800, (128,))
        optimizer.zero_grad()
        batched(bits[pick], more[pick]).mean().backward()
        optimizer.step()
        if step % 20 == 0:
            with torch.no_grad():
                out, _, steps = outputs(bits[1800:])
            right = (out.argmax(1) == more[1800:]).float().mean()
            print(f"step {step}: right {right:.1%}, steps taken {min(steps)} to {max(steps)}")


if __name__ == "__main__":
    main()
