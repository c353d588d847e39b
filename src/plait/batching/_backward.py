"""The way back through the groups that have run, and the sums of gradients of shared tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plait.batching._execute import Arena, Column, Executor, Step, give
from plait.batching._meta import Space
from plait.batching._signature import Sig


def backward(
    ex: Executor, seeds: Sequence[tuple[Space, Tensor, Tensor]], keep: bool
) -> tuple[dict[Space, Tensor], dict[int, Tensor]]:
    """Gradients of all rows and of the shared tensors, from gradients of some rows. Unless the run is to be kept, what
    the forward pass has saved is given back on the way."""
    grads: dict[Space, Tensor] = {}
    acc = Accumulator()

    def of(arena: Arena) -> Tensor:
        g = grads.get(arena.space)
        if g is None:
            space = arena.space
            g = grads[space] = torch.empty((arena.filled, *space.inner), dtype=space.dtype, device=space.device)
            # Nobody looks at gradients of rows that want none; on Linux their memory is not even taken.
            g[arena.blank :].zero_()
        return g

    for space, index, g in seeds:
        of(ex.arenas[space]).index_add_(0, index, g)
    for k in range(len(ex.tape) - 1, -1, -1):
        step = ex.tape[k] if keep else ex.tape.pop()
        sig, outs = step.sig, step.outs
        if not any(arena.space in grads for arena, _, _ in outs):
            continue
        reached = [_reached(ex, sig, out) for out in outs]
        if True not in reached:
            continue  # only decisions looked at it: the loop has no gradient here
        gouts = [
            of(arena).narrow(0, at, k) if some and arena.space.floating else None
            for (arena, at, k), some in zip(outs, reached)
        ]
        if sig.kind == "gather":
            give(of(step.columns[0][0]), step.columns[0], gouts[0])  # type: ignore[arg-type]
            continue
        dead = _dead_rows(ex, step)
        for j, (column, d) in enumerate(zip(step.columns, _vjp(step, gouts, acc))):
            if d is not None and column[2]:
                if dead is not None:
                    d = _without(d, dead, step, j, column)
                give(of(column[0]), column, d)
    return grads, acc.finish()


def _reached(ex: Executor, sig: Sig, out: tuple[Arena, int, int]) -> bool:
    live = ex.live
    if live is None or sig.kind == "alone" or sig.kind == "hoist":
        return True
    arena, at, rows = out
    return 1 in live[arena.number][at : at + rows]


def _dead_rows(ex: Executor, step: Step) -> list[bool] | None:
    """Which examples of a group have no path to a result; None if all have one."""
    if ex.live is None or step.sig.kind != "program":
        return None
    parts = [ex.live[arena.number][at : at + k] for arena, at, k in step.outs]
    if any(0 not in flags and per == 1 for flags, per in zip(parts, step.sig.out_rows)):
        return None
    n = step.rows.n
    alive = [False] * n
    for flags, per in zip(parts, step.sig.out_rows):
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


def _vjp(step: Step, gouts: list[Any], acc: Accumulator) -> list[Tensor | None]:
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
                [o for o, _ in pairs], want, [g for _, g in pairs], allow_unused=True, retain_graph=True
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

    def __init__(self) -> None:
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

    def finish(self) -> dict[int, Tensor]:
        for (_, pad), (w, ds, ids) in self.lookups.items():
            self.add(w, torch.ops.aten.embedding_dense_backward(_rows(ds), torch.cat(ids), w.shape[0], pad, False))
        for p in self.pairs.values():
            if p.rows:
                p.take()
            if p.of_weight is not None:
                self.add(p.weight, p.of_weight)
            if p.bias is not None and p.of_bias is not None:
                self.add(p.bias, p.of_bias)
        return self.sums


def _rows(xs: list[Tensor]) -> Tensor:
    return torch.cat(xs) if len(xs) > 1 else xs[0]
