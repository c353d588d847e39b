"""A TreeLSTM over real syntax trees: does a function of the standard library return a value?

Every function of some modules is a tree of its `ast` nodes (without the `return`s themselves: they would give it
away).  The model is plain recursion over one tree; `plait.batch` runs all trees of a batch level by level.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import zlib
from typing import Any

import torch
import torch.nn.functional as F
from _compare import compare, threads
from torch import Tensor, nn

import plait

MODULES = [
    "argparse",
    "ast",
    "calendar",
    "configparser",
    "csv",
    "difflib",
    "dis",
    "fractions",
    "gettext",
    "heapq",
    "inspect",
    "mailbox",
    "optparse",
    "pprint",
]
KINDS, WIDTH = 500, 32


def tree(node: ast.AST) -> Any:
    name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
    label = zlib.crc32(f"{type(node).__name__}:{name}".encode()) % KINDS
    parts = (c.value if isinstance(c, ast.Return) else c for c in ast.iter_child_nodes(node))
    return label, [tree(c) for c in parts if c is not None and not isinstance(c, ast.expr_context)]


def labels(t: Any) -> list[int]:
    return [t[0], *(i for c in t[1] for i in labels(c))]


def functions() -> list[tuple[Any, Tensor, Tensor]]:
    found = []
    for name in MODULES:
        for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(name)))):
            if isinstance(node, ast.FunctionDef):
                t = tree(node)
                returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
                if 10 <= len(labels(t)) <= 120:
                    found.append((t, torch.tensor(labels(t)), torch.tensor(int(returns))))
    return found


class TreeLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(KINDS, WIDTH)
        self.iou_x, self.iou_h = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.f_x, self.f_h = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, 2)

    @plait.cell
    def leaf(self, x: Tensor) -> tuple[Tensor, Tensor]:
        i, o, u = self.iou_x(x).chunk(3)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    @plait.cell
    def node(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, o, u = (self.iou_x(x) + self.iou_h(h.sum(0))).chunk(3)
        f = torch.sigmoid(self.f_x(x) + self.f_h(h))
        c = torch.sigmoid(i) * torch.tanh(u) + (f * c).sum(0)
        return torch.sigmoid(o) * torch.tanh(c), c

    def walk(self, t: Any, rows: Any) -> tuple[Tensor, Tensor]:
        x = next(rows)
        if not t[1]:
            return self.leaf(x)
        states = [self.walk(c, rows) for c in t[1]]
        return self.node(x, torch.stack([h for h, _ in states]), torch.stack([c for _, c in states]))

    def forward(self, t: Any, ids: Tensor) -> Tensor:
        return self.head(self.walk(t, iter(self.embed(ids)))[0])


def main() -> None:
    threads()
    data = functions()
    order = torch.randperm(len(data)).tolist()
    data = [data[i] for i in order]
    test, train = data[:100], data[100:]
    model = TreeLSTM()

    def loss(t: Any, ids: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(t, ids), y)

    compare(loss, tuple(list(c) for c in zip(*train[:64])), model)
    batched, scores = plait.batch(loss), plait.batch(model)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for epoch in range(3):
        total = 0.0
        for k in range(0, len(train), 64):
            optimizer.zero_grad()
            value = batched(*(list(c) for c in zip(*train[k : k + 64]))).mean()
            value.backward()
            optimizer.step()
            total += float(value.detach()) * len(train[k : k + 64])
        with torch.no_grad():
            trees, ids, y = (list(c) for c in zip(*test))
            right = (scores(trees, ids).argmax(1) == torch.stack(y)).float().mean()
        print(f"epoch {epoch}: loss {total / len(train):.3f}, right on {len(test)} unseen functions: {right:.0%}")


if __name__ == "__main__":
    main()
