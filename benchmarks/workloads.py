"""Nine dynamic models and one that cannot batch, each written for ONE example, as one would write it; and their data.

A workload has `model` (an nn.Module), `one(example...)` (the loss of one example), `examples` (columns of arguments) and
`units` (steps, nodes or tokens, for the times).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from settings import EPSILON, MOST, PONDER, choose
from torch import Tensor, nn

import plait

EXAMPLES = 64


@dataclass
class Workload:
    name: str
    what: str
    unit: str
    model: nn.Module
    one: Callable[..., Tensor]
    examples: tuple[list[Any], ...]
    units: int


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lengths(low: int, high: int, seed: int = 100) -> list[int]:
    return torch.randint(low, high + 1, (EXAMPLES,), generator=rng(seed)).tolist()


def labels(n: int = 5) -> list[Tensor]:
    return list(torch.randint(0, n, (EXAMPLES,), generator=rng(7)).unbind())


def sequences(sizes: list[int], h: int) -> list[Tensor]:
    g = rng(3)
    return [torch.randn(n, h, generator=g) for n in sizes]


def uniform(*shape: int, fan: int | None = None) -> nn.Parameter:
    k = (fan or shape[-1]) ** -0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-k, k))


# ---------------------------------------------------------------------- W0: nothing to batch
KINDS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.tanh, torch.sigmoid, torch.sin, torch.cos, F.gelu, F.softplus, F.silu, F.elu,
)  # fmt: skip


class Unlike(nn.Module):
    """Every example has a width and an order of steps of its own, and decides after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.1))

    def forward(self, x: Tensor, order: list[int]) -> Tensor:
        for k in order:
            x = KINDS[k](x)
            if x.mean() > 0.3:
                x = x * self.scale
        return x.square().mean()


def unlike(h: int) -> Workload:
    g = rng(3)
    model = Unlike()
    xs = [torch.randn(4, h + k, generator=g) for k in range(EXAMPLES)]
    orders = [torch.randint(0, len(KINDS), (20,), generator=g).tolist() for _ in xs]
    return Workload("W0", "nothing to batch", "step", model, model, (xs, orders), 20 * EXAMPLES)


# ---------------------------------------------------------------------- W1, W1L: loops
class Loop(nn.Module):
    def __init__(self, h: int, lstm: bool) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(h, h) if lstm else nn.RNNCell(h, h)
        self.head = nn.Linear(h, 5)
        self.h = h

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.cell, nn.LSTMCell):
            h = c = torch.zeros(self.h)
            for row in x:
                h, c = self.cell(row, (h, c))
        else:
            h = torch.zeros(self.h)
            for row in x:
                h = self.cell(row, h)
        return F.cross_entropy(self.head(h), y)


class Whole(nn.Module):
    """The same model with the loop inside nn.RNN / nn.LSTM."""

    def __init__(self, h: int, lstm: bool) -> None:
        super().__init__()
        self.net = (nn.LSTM if lstm else nn.RNN)(h, h)
        self.head = nn.Linear(h, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out, _ = self.net(x)
        return F.cross_entropy(self.head(out[-1]), y)


def loop(h: int, lstm: bool, whole: bool = False) -> Workload:
    sizes = lengths(5, 50)
    model = Whole(h, lstm) if whole else Loop(h, lstm)
    name = ("W1L" if lstm else "W1") + ("r" if whole else "")
    what = ("nn.LSTM" if lstm else "nn.RNN") if whole else ("LSTM cell loop" if lstm else "tanh RNN cell loop")
    return Workload(name, what, "step", model, model, (sequences(sizes, h), labels()), sum(sizes))


# ---------------------------------------------------------------------- W2: a decision at each step
class Deciding(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.x, self.s, self.head, self.h = nn.Linear(h, h), nn.Linear(h, h, bias=False), nn.Linear(h, 5), h
        with torch.no_grad():
            self.s.weight *= 1.5

    @plait.cell
    def before(self, row: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        a = self.x(row) + self.s(h)
        return a, a.mean()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.zeros(self.h)
        for row in x:
            a, mean = self.before(row, h)
            h = torch.relu(a) if mean > 0 else torch.tanh(a)
        return F.cross_entropy(self.head(h), y)


def deciding(h: int) -> Workload:
    sizes = lengths(5, 50)
    model = Deciding(h)
    return Workload(
        "W2",
        "RNN with a decision each step",
        "step",
        model,
        model,
        (sequences(sizes, h), labels()),
        sum(sizes),
    )


# ---------------------------------------------------------------------- W3: binary trees
class BinaryTree(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.leaf_in, self.node_in, self.head = nn.Linear(h, 3 * h), nn.Linear(2 * h, 5 * h), nn.Linear(h, 5)

    @plait.cell
    def leaf(self, x: Tensor) -> tuple[Tensor, Tensor]:
        i, o, u = self.leaf_in(x).chunk(3)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    @plait.cell
    def node(self, hl: Tensor, cl: Tensor, hr: Tensor, cr: Tensor) -> tuple[Tensor, Tensor]:
        i, fl, fr, o, u = self.node_in(torch.cat([hl, hr])).chunk(5)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * cl + torch.sigmoid(fr) * cr
        return torch.sigmoid(o) * torch.tanh(c), c

    def walk(self, tree: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(tree, int):
            return self.leaf(x[tree])
        return self.node(*self.walk(tree[0], x), *self.walk(tree[1], x))

    def forward(self, tree: Any, x: Tensor, y: Tensor) -> Tensor:
        h, _ = self.walk(tree, x)
        return F.cross_entropy(self.head(h), y)


def binary_tree(h: int) -> Workload:
    g = rng(100)

    def build(lo: int, hi: int) -> Any:
        if hi - lo == 1:
            return lo
        m = int(torch.randint(lo + 1, hi, (), generator=g))
        return (build(lo, m), build(m, hi))

    sizes = lengths(10, 40)
    model = BinaryTree(h)
    return Workload(
        "W3",
        "binary TreeLSTM",
        "node",
        model,
        model,
        ([build(0, n) for n in sizes], sequences(sizes, h), labels()),
        sum(2 * n - 1 for n in sizes),
    )


# ---------------------------------------------------------------------- W3A: child-sum trees of real code
VOCABULARY = 2000
FILES = (
    "argparse ast bisect calendar codecs configparser copy csv dataclasses difflib dis enum fractions functools "
    "gettext glob heapq inspect ipaddress json.decoder json.encoder locale mailbox mimetypes netrc ntpath opcode "
    "optparse pickle platform posixpath pprint random shlex shutil statistics string tarfile textwrap tokenize "
    "traceback typing uuid weakref zipfile"
)


def label_of(n: ast.AST) -> int:
    name = next((v for k in ("name", "id", "attr", "arg") if (v := getattr(n, k, None))), None)
    if isinstance(n, ast.Constant):
        name = repr(n.value)[:20]
    return zlib.crc32((type(n).__name__ + (f":{name}" if isinstance(name, str) else "")).encode()) % VOCABULARY


def tree_of(n: ast.AST) -> Any:
    return label_of(n), [tree_of(c) for c in ast.iter_child_nodes(n) if not isinstance(c, ast.expr_context)]


def size_of(tree: Any) -> int:
    return 1 + sum(map(size_of, tree[1]))


def forest() -> list[Any]:
    found = []
    for name in FILES.split():
        for n in ast.walk(ast.parse(inspect.getsource(importlib.import_module(name)))):
            if isinstance(n, ast.FunctionDef) and 20 <= size_of(t := tree_of(n)) <= 150:
                found.append(t)
    pick = torch.randperm(len(found), generator=rng(0))[:EXAMPLES].tolist()
    return [found[i] for i in pick]


class ChildSum(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, h)
        self.x, self.hs = nn.Linear(h, 3 * h), nn.Linear(h, 3 * h, bias=False)
        self.fx, self.fh, self.head = nn.Linear(h, h), nn.Linear(h, h, bias=False), nn.Linear(h, 5)
        with torch.no_grad():
            self.words.weight *= 0.5

    @plait.cell
    def leaf(self, x: Tensor) -> tuple[Tensor, Tensor]:
        i, o, u = self.x(x).chunk(3)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    @plait.cell
    def node(self, x: Tensor, hs: Tensor, cs: Tensor) -> tuple[Tensor, Tensor]:
        i, o, u = (self.x(x) + self.hs(hs.sum(0))).chunk(3)
        f = torch.sigmoid(self.fx(x) + self.fh(hs))
        c = torch.sigmoid(i) * torch.tanh(u) + (f * cs).sum(0)
        return torch.sigmoid(o) * torch.tanh(c), c

    def walk(self, tree: Any, rows: Any) -> tuple[Tensor, Tensor]:
        x = next(rows)
        if not tree[1]:
            return self.leaf(x)
        states = [self.walk(c, rows) for c in tree[1]]
        return self.node(x, torch.stack([h for h, _ in states]), torch.stack([c for _, c in states]))

    def forward(self, tree: Any, ids: Tensor, y: Tensor) -> Tensor:
        h, _ = self.walk(tree, iter(self.words(ids)))
        return F.cross_entropy(self.head(h), y)


def child_sum(h: int) -> Workload:
    trees = forest()

    def ids(t: Any) -> list[int]:
        return [t[0], *(i for c in t[1] for i in ids(c))]

    model = ChildSum(h)
    return Workload(
        "W3A",
        "child-sum TreeLSTM on ast trees",
        "node",
        model,
        model,
        (trees, [torch.tensor(ids(t)) for t in trees], labels()),
        sum(map(size_of, trees)),
    )


# ---------------------------------------------------------------------- W4: a tagger that spells rare words
WORD, CHAR, CHAR_HIDDEN, MLP, TAGS = 128, 20, 64, 32, 9


class Tagger(nn.Module):
    def __init__(self, h: int, words: int, chars: int) -> None:
        super().__init__()
        self.words, self.chars = nn.Embedding(words, WORD), nn.Embedding(chars, CHAR)
        self.spell = nn.LSTM(CHAR, CHAR_HIDDEN, bidirectional=True)
        self.read = nn.LSTM(WORD, h, bidirectional=True)
        self.out = nn.Sequential(nn.Linear(2 * h, MLP, bias=False), nn.Tanh(), nn.Linear(MLP, TAGS, bias=False))

    def forward(self, sentence: list[Any], tags: Tensor) -> Tensor:
        known = [w for w in sentence if isinstance(w, int)]
        looked_up = iter(self.words(torch.tensor(known))) if known else iter(())
        xs = []
        for w in sentence:
            if isinstance(w, int):
                xs.append(next(looked_up))
            else:
                _, (h, _) = self.spell(self.chars(w))
                xs.append(h.flatten())
        states, _ = self.read(torch.stack(xs))
        return F.cross_entropy(self.out(states), tags, reduction="sum")


def tagger(h: int) -> Workload:
    topics = importlib.import_module("pydoc_data.topics").topics
    text = " ".join(topics[k] for k in sorted(topics))
    sents = [re.findall(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]", s) for s in re.split(r"(?<=[.!?])\s+", text)]
    sents = [s for s in sents if 5 <= len(s) <= 40]
    count = Counter(w for s in sents for w in s)
    vocabulary = {w: i for i, w in enumerate(sorted(w for w, n in count.items() if n > 5))}
    letters = {c: i + 1 for i, c in enumerate(sorted({c for w in count for c in w}))}
    g = rng(100)
    pick = [sents[i] for i in torch.randperm(len(sents), generator=g)[:EXAMPLES].tolist()]
    data = [
        [vocabulary[w] if w in vocabulary else torch.tensor([0, *(letters[c] for c in w), 0]) for w in s] for s in pick
    ]
    tags = [torch.randint(0, TAGS, (len(s),), generator=g) for s in pick]
    model = Tagger(h, len(vocabulary), len(letters) + 1)
    return Workload("W4", "BiLSTM tagger, char BiLSTM", "token", model, model, (data, tags), sum(map(len, pick)))


# ---------------------------------------------------------------------- W5: a parser that chooses its actions
class Parser(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(h, h), nn.Tanh())
        self.empty = uniform(3, h)
        self.hidden, self.scores = nn.Linear(3 * h, h), nn.Linear(h, 3)
        self.left, self.right = (nn.Sequential(nn.Linear(2 * h, h), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(h, 5)
        with torch.no_grad():
            self.scores.weight *= 6

    @plait.cell
    def score(self, below: Tensor, top: Tensor, ahead: Tensor) -> tuple[Tensor, Tensor]:
        s = self.scores(torch.tanh(self.hidden(torch.cat([below, top, ahead]))))
        return s, torch.log_softmax(s, 0)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        buffer = list(self.tokens(x))
        no_below, no_top, no_ahead = self.empty
        stack: list[Tensor] = []
        taken = []
        n, i = len(buffer), 0
        while i < n or len(stack) > 1:
            s, logp = self.score(
                stack[-2] if len(stack) > 1 else no_below,
                stack[-1] if stack else no_top,
                buffer[i] if i < n else no_ahead,
            )
            a = choose(s.tolist(), i < n, len(stack) > 1)
            taken.append(logp[a])
            if a == 0:
                stack.append(buffer[i])
                i += 1
            else:
                right = stack.pop()
                left = stack.pop()
                stack.append((self.left if a == 1 else self.right)(torch.cat([left, right])))
        return F.cross_entropy(self.head(stack[0]), y) - torch.stack(taken).sum()


def parser(h: int) -> Workload:
    sizes = lengths(5, 40)
    model = Parser(h)
    return Workload(
        "W5",
        "greedy shift-reduce parser",
        "step",
        model,
        model,
        (sequences(sizes, h), labels()),
        sum(2 * n - 1 for n in sizes),
    )


# ---------------------------------------------------------------------- W6: each example halts by itself
class Halting(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.x, self.s = nn.Linear(h, h), nn.Linear(h, h, bias=False)
        self.halt, self.head, self.h = nn.Linear(h, 1), nn.Linear(h, 5), h
        with torch.no_grad():
            self.s.weight *= 1.5
            self.halt.weight.copy_(torch.randn(1, h, generator=rng(11)) * 2.5 * h**-0.5)
            self.halt.bias.fill_(-1.9)

    @plait.cell
    def update(self, xp: Tensor, s: Tensor, y: Tensor, used: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = torch.tanh(xp + self.s(s))
        q = torch.sigmoid(self.halt(s))
        return s, y + q * s, used + q

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        xp = self.x(x)
        s = y = torch.zeros(self.h)
        used = torch.zeros(1)
        for n in range(1, MOST + 1):
            s, more, total = self.update(xp, s, y, used)
            if total >= 1 - EPSILON or n == MOST:
                break
            y, used = more, total
        rest = 1 - used
        return F.cross_entropy(self.head(y + rest * s), target) + PONDER * (n + rest).sum()


def halting(h: int) -> Workload:
    model = Halting(h)
    xs = list(torch.randn(EXAMPLES, h, generator=rng(5)).unbind())
    units = 0
    with torch.no_grad():
        for x in xs:
            xp, s, used = model.x(x), torch.zeros(h), 0.0
            for _n in range(MOST):
                s = torch.tanh(xp + model.s(s))
                used += torch.sigmoid(model.halt(s)).item()
                units += 1
                if used >= 1 - EPSILON:
                    break
    return Workload("W6", "halting per example", "step", model, model, (xs, labels()), units)


# ---------------------------------------------------------------------- W7: attention over sentences of any length
class Encoder(nn.Module):
    def __init__(self, h: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(h, 4, 4 * h, dropout=0.0, batch_first=True)
        self.head = nn.Linear(h, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.layer(x).mean(0)), y)


def encoder(h: int) -> Workload:
    sizes = lengths(5, 50)
    model = Encoder(h)
    return Workload(
        "W7",
        "ragged Transformer encoder layer",
        "token",
        model,
        model,
        (sequences(sizes, h), labels()),
        sum(sizes),
    )


ALL: dict[str, Callable[[int], Workload]] = {
    "W0": unlike,
    "W1": lambda h: loop(h, False),
    "W1r": lambda h: loop(h, False, True),
    "W1L": lambda h: loop(h, True),
    "W1Lr": lambda h: loop(h, True, True),
    "W2": deciding,
    "W3": binary_tree,
    "W3A": child_sum,
    "W4": tagger,
    "W5": parser,
    "W6": halting,
    "W7": encoder,
}
