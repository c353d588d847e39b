"""The rows of one space in one tensor; reading and adding to some of them."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from plait.batching._meta import Space
from plait.batching._program import Rows

AHEAD = 1 << 25  # bytes


class Late:
    """Gradients of the rows that one product has made, in the order in which groups come by: the gradient of its weight
    is a sum over rows in any order, so they need not be put in their places."""

    def __init__(self, back: Any, saved: tuple[Tensor, ...], shared: list[Tensor], weights: list[Any]) -> None:
        self.back = back
        self.saved = saved
        self.shared = shared
        self.weights = weights
        self.places: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.rows = 0

    def add(self, column: Column, g: Tensor, acc: Any) -> None:
        _, start, count, index = column
        self.places.append(torch.arange(start, start + count, device=g.device) if index is None else index)
        self.grads.append(g)
        self.rows += count
        if self.rows >= acc.ROWS:
            self.take(acc)

    def take(self, acc: Any) -> None:
        if self.rows:
            at = torch.cat(self.places)
            saved = tuple([x.index_select(0, at) for x in self.saved])
            rows = Rows(self.rows, None, at.device)
            self.back(rows, saved, [torch.cat(self.grads)], self.shared, self.weights, acc)
        self.clear()

    def clear(self) -> None:
        self.places, self.grads, self.rows = [], [], 0


class Arena:
    """All rows of one space, in one tensor that grows; the core hands out the rows."""

    __slots__ = ("blank", "buf", "filled", "given", "grad", "late", "live", "number", "row_bytes", "size", "space")

    def __init__(self, space: Space, number: int, rows: int = 0) -> None:
        self.space = space
        self.number = number  # in the core; -1 for rows that it does not know of
        self.given = 0  # rows at the beginning that were loaded from outside
        self.blank = 0  # of these, how many from the first on want no gradient
        self.live: bytearray | None = None  # rows that a result depends on, if not all do
        self.grad: Tensor | None = None  # of all rows, during a backward pass
        self.late: Late | None = None  # in place of `grad`, for results of a hoisted product
        self.buf = torch.empty((rows, *space.inner), dtype=space.dtype, device=space.device)
        self.size = rows
        self.filled = rows  # rows in use
        self.row_bytes = max(prod(space.inner), 1) * self.buf.element_size()

    def reserve(self, used: int) -> None:
        """Room for `used` rows."""
        if used > self.size:
            # On a CPU memory is only taken once it is written, and to move rows later would cost twice.
            ahead = 8 if self.space.device.type == "cpu" and used * self.row_bytes < AHEAD else 2
            self.size = max(used, ahead * (self.size or used), 64)
            old = self.buf
            self.buf = torch.empty((self.size, *self.space.inner), dtype=self.space.dtype, device=self.space.device)
            if self.filled:
                self.buf[: self.filled] = old[: self.filled]
        self.filled = used


# Where the rows of one argument of a group are: a run of them, or an index.
Column = tuple[Arena, int, int, Tensor | None]


def take(buf: Tensor, column: Column) -> Tensor:
    """The rows."""
    _, start, count, index = column
    return buf[start : start + count] if index is None else buf.index_select(0, index)


def give(grads: Tensor, column: Column, g: Tensor | tuple[Tensor, Tensor]) -> None:
    """Adds a gradient, or the product of two matrices, to the rows."""
    arena, start, count, index = column
    if isinstance(g, tuple):
        if index is None and grads.dim() == 2 and g[0].shape[0] == count:
            grads[start : start + count].addmm_(*g)
            return
        g = torch.mm(*g)
    if g.dim() != grads.dim() or g.shape[0] != count:
        g = g.reshape(count, *arena.space.inner)
    if g._base is grads:  # a gradient passed on as it is
        g = g.clone()
    if index is None:
        grads[start : start + count].add_(g)
    else:
        grads.index_add_(0, index, g)
