"""A tagger over docstrings that every Python has: words one by one, rare words letter by letter.

The tag of a word says what it is in code: a keyword, a builtin, a number, punctuation, a capitalised or another word,
seen only through a word vector or through its letters.  Sentences and words have any length; nothing is padded.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import keyword
import re
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from _compare import compare, threads
from torch import Tensor, nn

import plait

MODULES = [
    "argparse",
    "asyncio",
    "collections",
    "contextlib",
    "csv",
    "decimal",
    "email",
    "functools",
    "inspect",
    "json",
    "logging",
    "os",
    "pathlib",
    "random",
    "re",
]


def tag(word: str) -> int:
    if keyword.iskeyword(word):
        return 0
    if hasattr(builtins, word):
        return 1
    if word[0].isdigit():
        return 2
    if not word[0].isalpha():
        return 3
    return 4 if word[0].isupper() else 5


def sentences() -> list[list[str]]:
    text: list[str] = []
    for name in MODULES:
        for _, thing in sorted(inspect.getmembers(importlib.import_module(name))):
            text += re.split(r"(?<=[.!?])\s+", inspect.getdoc(thing) or "")
    cut = [re.findall(r"\w+|[^\w\s]", s) for s in dict.fromkeys(text)]
    return [s for s in cut if 4 <= len(s) <= 30]


class Tagger(nn.Module):
    def __init__(self, words: int, letters: int) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(words, 32), nn.Embedding(letters, 12)
        self.spell = nn.LSTM(12, 16, bidirectional=True)
        self.read = nn.LSTM(32, 32, bidirectional=True)
        self.out = nn.Linear(64, 6)

    def forward(self, sentence: list[Any]) -> Tensor:
        xs = []
        for w in sentence:
            if isinstance(w, int):
                xs.append(self.words(torch.tensor(w)))
            else:  # a rare word: its letters
                _, (h, _) = self.spell(self.letters(w))
                xs.append(h.flatten())
        states, _ = self.read(torch.stack(xs))
        return self.out(states)


def main() -> None:
    threads()
    text = sentences()
    count = Counter(w for s in text for w in s)
    known = {w: i for i, (w, n) in enumerate(count.most_common()) if n > 4}
    letters = {c: i for i, c in enumerate(sorted({c for w in count for c in w}))}
    data = [
        (
            [known[w] if w in known else torch.tensor([letters[c] for c in w]) for w in s],
            torch.tensor([tag(w) for w in s]),
        )
        for s in text
    ]
    order = torch.randperm(len(data)).tolist()[:900]
    data = [data[i] for i in order]
    test, train = data[:100], data[100:]
    model = Tagger(len(known), len(letters))

    def loss(sentence: list[Any], tags: Tensor) -> Tensor:
        return F.cross_entropy(model(sentence), tags)

    compare(loss, tuple(list(c) for c in zip(*train[:64])), model)
    batched, scores = plait.batch(loss), plait.batch(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(3):
        for k in range(0, len(train), 64):
            optimizer.zero_grad()
            batched(*(list(c) for c in zip(*train[k : k + 64]))).mean().backward()
            optimizer.step()
        with torch.no_grad():
            out = scores([s for s, _ in test])
        right = torch.cat([o.argmax(1) == t for o, (_, t) in zip(out, test)]).float().mean()
        print(f"epoch {epoch}: tags right on unseen sentences: {right:.1%}")


if __name__ == "__main__":
    main()
