"""A traced piece of one-example code as a list of batched instructions, and what runs it.

Each value has a per-example shape; in memory it is one tensor with the batch in front: `[n, *shape]`, or for a
ragged value (rows of another number per example) `[N, *shape[1:]]` with all rows of all examples after one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


class NoRule(Exception):
    """There is no batched form of this call for these arguments (in this layout)."""


class Rows:
    """How the rows of a group belong to its examples."""

    __slots__ = ("_owner", "_starts", "_t", "device", "lengths", "n", "total")

    def __init__(self, n: int, lengths: list[int] | None, device: torch.device | None = None) -> None:
        self.n = n
        self.lengths = lengths
        self.total = n if lengths is None else sum(lengths)
        self.device = device
        self._owner: Tensor | None = None
        self._t: Tensor | None = None
        self._starts: list[int] | None = None

    @property
    def equal(self) -> int:
        """The common length if all examples have the same one, else -1."""
        ls = self.lengths
        if ls is None:
            return 1
        return ls[0] if ls and all(k == ls[0] for k in ls) else -1

    @property
    def sizes(self) -> Tensor:
        if self._t is None:
            self._t = torch.tensor(self.lengths if self.lengths is not None else [1] * self.n, device=self.device)
        return self._t

    @property
    def owner(self) -> Tensor:
        """For each row, its example."""
        if self._owner is None and self.n == 1:
            self._owner = torch.zeros(self.total, dtype=torch.int64, device=self.device)
        elif self._owner is None:
            self._owner = torch.repeat_interleave(
                torch.arange(self.n, device=self.device), self.sizes, output_size=self.total
            )
        return self._owner


@dataclass(slots=True)
class Val:
    """A value inside a program."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    ragged: bool
    tracks: bool

    @property
    def inner(self) -> tuple[int, ...]:
        return self.shape[1:] if self.ragged else self.shape


@dataclass(slots=True)
class Instr:
    """`outs = fn(*ins)`; an input below zero is the shared tensor number `~input`."""

    op: str
    ins: tuple[int, ...]
    consts: tuple[Any, ...]
    outs: tuple[int, ...]
    fn: Callable[..., Any]
    rows: bool = False  # fn takes the `Rows` first
    func_name: str = ""  # what the person called, for reports
    opaque: bool = False  # no direct batched form: vmap, or one by one


@dataclass(slots=True)
class Program:
    """Straight-line batched code; `compiled` (hand-made derivatives) is None where an instruction lacks one."""

    vals: list[Val]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    code: list[Instr]
    n_shared: int
    key: tuple[Any, ...] = ()
    ragged: bool = False
    compiled: Any = None
    alone: list[str] = field(default_factory=list)
    hoist: Any = None  # see `_hoist`
    own: frozenset[int] = frozenset()  # inputs that nobody else needs: the code may write into them
    _over: list[list[int]] | None = None

    def interpret(self, rows: Rows, args: Sequence[Tensor], shared: Sequence[Tensor]) -> list[Tensor]:
        """The plain form: torch calls one after the other, differentiable by autograd as often as one likes."""
        env: list[Any] = [None] * len(self.vals)
        for v, a in zip(self.ins, args):
            env[v] = a
        for i, over in zip(self.code, self._last_uses()):
            xs = [env[k] if k >= 0 else shared[~k] for k in i.ins]
            with torch.set_grad_enabled(torch.is_grad_enabled() and any(self.vals[o].tracks for o in i.outs)):
                out = i.fn(rows, *xs) if i.rows else i.fn(*xs)
            if len(i.outs) == 1:
                env[i.outs[0]] = out
            else:
                for o, t in zip(i.outs, out):
                    env[o] = t
            del xs, out
            for k in over:
                env[k] = None
        return [env[o] for o in self.outs]

    def _last_uses(self) -> list[list[int]]:
        """For each instruction the values that nobody reads after it: their memory is given back at once."""
        if self._over is None:
            seen = set(self.outs)
            self._over = [[] for _ in self.code]
            for i, over in zip(reversed(self.code), reversed(self._over)):
                over += {k for k in (*i.ins, *i.outs) if k >= 0} - seen
                seen.update(over)
        return self._over
