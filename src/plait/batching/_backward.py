"""The way back through the groups that have run, and the sums of gradients of shared tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plait.batching._arena import Arena, Column, give
from plait.batching._execute import Executor, Step
from plait.batching._meta import Space


def backward(
    ex: Executor, seeds: Sequence[tuple[Space, Tensor, Tensor]], keep: bool
) -> tuple[dict[Space, Tensor], dict[int, Tensor]]:
    """Gradients of all rows and of the shared tensors, from gradients of some rows. Unless the run is to be kept, what
    the forward pass has saved is given back on the way."""
    acc = Accumulator(keep)
    arenas = list(ex.arenas.values())
    for arena in arenas:
        arena.grad = None
        if arena.late is not None:
            arena.late.clear()
    for space, index, g in seeds:
        _grad(ex.arenas[space]).index_add_(0, index, g)
    for k in range(len(ex.tape) - 1, -1, -1):
        step = ex.tape[k] if keep else ex.tape.pop()
        sig = step.sig
        for arena, _, _ in step.outs:
            if arena.late is not None:
                arena.late.take(acc)
            if arena.grad is not None:
                break
        else:
            continue
        gouts: list[Tensor | None] = []
        reached = some = False
        for arena, at, rows in step.outs:
            live = arena.live
            if live is None or sig.kind == "alone" or 1 in live[at : at + rows]:
                reached = True
                some = some or live is not None
                gouts.append(_grad(arena)[at : at + rows] if arena.space.floating else None)
            else:
                gouts.append(None)
        if not reached:
            continue  # only decisions looked at it: the loop has no gradient here
        if sig.kind == "gather":
            give(_grad(step.columns[0][0]), step.columns[0], gouts[0])  # type: ignore[arg-type]
            continue
        dead = _dead_rows(step) if some and sig.kind == "program" else None
        for j, (column, d) in enumerate(zip(step.columns, _vjp(step, gouts, acc))):
            if d is not None and column[2]:
                if type(d) is tuple and (dead is not None or column[0].late is not None):
                    d = torch.mm(*d)
                if dead is not None:
                    d = _without(d, dead, step, j, column)
                if column[0].late is not None:
                    column[0].late.add(column, d, acc)
                else:
                    give(_grad(column[0]), column, d)
    grads = {arena.space: arena.grad for arena in arenas if arena.grad is not None}
    for arena in arenas:
        arena.grad = None
    return grads, acc.finish()


def _grad(arena: Arena) -> Tensor:
    """The gradients of all rows of a space."""
    g = arena.grad
    if g is None:
        space = arena.space
        g = arena.grad = torch.empty((arena.filled, *space.inner), dtype=space.dtype, device=space.device)
        # Nobody looks at gradients of rows that want none; on Linux their memory is not even taken.
        g[arena.blank :].zero_()
    return g


def _dead_rows(step: Step) -> list[bool] | None:
    """Which examples of a group have no path to a result; None if all have one."""
    n = step.rows.n
    alive = [False] * n
    for (arena, at, rows), per in zip(step.outs, step.sig.out_rows):
        flags = arena.live[at : at + rows] if arena.live is not None else b"\1" * rows
        if per == 1 and 0 not in flags:
            return None
        if 1 not in flags:
            continue
        counts = step.rows.lengths if per < 0 and step.rows.lengths is not None else [per] * n
        pos = 0
        for i, c in enumerate(counts):
            if c and flags[pos]:
                alive[i] = True
            pos += c
    return None if all(alive) else [not a for a in alive]


def _without(g: Tensor, dead: list[bool], step: Step, j: int, column: Column) -> Tensor:
    """Zero instead of NaN where the loop would not have gone back at all."""
    _, ragged, _, per = step.sig.in_metas[j]
    counts = step.rows.lengths if ragged and step.rows.lengths is not None else [per] * len(dead)
    g = g.reshape(column[2], *column[0].space.inner)
    mask = torch.tensor([d for d, c in zip(dead, counts) for _ in range(c)], device=g.device)
    return torch.where(mask.view(-1, *(1,) * (g.dim() - 1)), torch.zeros((), dtype=g.dtype, device=g.device), g)


def _vjp(step: Step, gouts: list[Any], acc: Accumulator) -> list[Any]:
    program = step.sig.program
    if program is not None and program.compiled is not None:
        sig = step.sig
        back = program.compiled.backward_for(tuple([g is not None for g in gouts]))
        if not sig.simple:
            gouts = _physical(step, gouts)
        return back(step.rows, step.saved, gouts, sig.shared, sig.weights, acc)  # type: ignore[no-any-return]
    leaves, weights, outs = step.saved[:3]
    want = [t for t in (*leaves, *weights) if t.requires_grad]
    pairs = (
        [(o, g.reshape(o.shape)) for o, g in zip(outs, gouts) if g is not None and o.requires_grad]
        if program is not None
        else [(o, g.reshape(o.shape)) for o, g in zip(outs, gouts)]
    )
    if not want or not pairs:
        return [None] * len(leaves)
    with torch.enable_grad():
        got = iter(
            torch.autograd.grad(
                [o for o, _ in pairs], want, [g for _, g in pairs], allow_unused=True, retain_graph=acc.keep
            )
        )
    res = [next(got) if t.requires_grad else None for t in leaves]
    for w, real in zip(weights, step.sig.shared):
        if w.requires_grad:
            g = next(got)
            if g is not None:
                acc.add(real, g)
    return res


def _physical(step: Step, gouts: list[Any]) -> list[Any]:
    """Rows of gradients in the shapes that the program's results had."""
    program = step.sig.program
    assert program is not None
    res = []
    for v, g in zip(program.outs, gouts):
        val = program.vals[v]
        res.append(g if g is None else g.view(step.rows.total if val.ragged else step.rows.n, *val.inner))
    return res


class Pairs:
    """Gradients of a product and its inputs, whose own product is the gradient of a weight: taken by the hundred rows,
    since one product of many rows is much faster than many of few, and all of them at once would have to be kept."""

    __slots__ = ("bias", "ds", "of_bias", "of_weight", "rows", "transposed", "weight", "xs")
    ROWS = 512

    def __init__(self, weight: Tensor, bias: Tensor | None, transposed: bool) -> None:
        self.weight = weight
        self.bias = bias
        self.transposed = transposed  # the weight is `[in, out]`
        self.of_weight: Tensor | None = None
        self.of_bias: Tensor | None = None
        self.ds: list[Tensor] = []
        self.xs: list[Tensor] = []
        self.rows = 0

    def add(self, d: Tensor, x: Tensor) -> None:
        self.ds.append(d)
        self.xs.append(x)
        self.rows += d.shape[0]
        if self.rows >= self.ROWS:
            self.take()

    def take(self) -> None:
        d, x = _rows(self.ds), _rows(self.xs)
        self.ds, self.xs, self.rows = [], [], 0
        if self.weight.requires_grad:
            a, b = (x, d) if self.transposed else (d, x)
            self.of_weight = a.t() @ b if self.of_weight is None else self.of_weight.addmm_(a.t(), b)
        if self.bias is not None and self.bias.requires_grad:
            total = d.sum(0)
            self.of_bias = total if self.of_bias is None else self.of_bias.add_(total)


class Accumulator:
    """Gradients of shared tensors."""

    ROWS = Pairs.ROWS

    def __init__(self, keep: bool) -> None:
        self.keep = keep  # what the forward pass has saved is needed again
        self.sums: dict[int, Tensor] = {}
        self.pairs: dict[tuple[int, int], Pairs] = {}
        self.lookups: dict[tuple[int, int], tuple[Tensor, list[Tensor], list[Tensor]]] = {}

    def add(self, w: Tensor, g: Tensor) -> None:
        g = g.reshape(w.shape)
        old = self.sums.get(id(w))
        self.sums[id(w)] = g if old is None else old + g

    def linear(self, w: Tensor, b: Tensor | None, d: Tensor, x: Tensor) -> None:
        """`y = x @ w.T + b` with gradient `d` of y."""
        key = (id(w), id(b) if b is not None else 0)
        found = self.pairs.get(key)
        if found is None:
            found = self.pairs[key] = Pairs(w, b, False)
        found.add(d, x)

    def matmul(self, w: Tensor, d: Tensor, x: Tensor) -> None:
        """`y = x @ w` with gradient `d` of y."""
        if w.requires_grad:
            found = self.pairs.get((id(w), -1))
            if found is None:
                found = self.pairs[(id(w), -1)] = Pairs(w, None, True)
            found.add(d, x)

    def lookup(self, w: Tensor, d: Tensor, ids: Tensor, pad: int | None) -> None:
        """`y = w[ids]` with gradient `d` of y."""
        if w.requires_grad:
            found = self.lookups.setdefault((id(w), -1 if pad is None else pad), (w, [], []))
            found[1].append(d.reshape(-1, w.shape[1]))
            found[2].append(ids.reshape(-1))

    def settle(self) -> None:
        """Takes the products that wait for more rows: what they are made of need not be kept any longer."""
        for p in self.pairs.values():
            if p.rows:
                p.take()

    def finish(self) -> dict[int, Tensor]:
        for (_, pad), (w, ds, ids) in self.lookups.items():
            self.add(w, torch.ops.aten.embedding_dense_backward(_rows(ds), torch.cat(ids), w.shape[0], pad, False))
        self.settle()
        for p in self.pairs.values():
            if p.of_weight is not None:
                self.add(p.weight, p.of_weight)
            if p.bias is not None and p.of_bias is not None:
                self.add(p.bias, p.of_bias)
        return self.sums


def _rows(xs: list[Tensor]) -> Tensor:
    return torch.cat(xs) if len(xs) > 1 else xs[0]
