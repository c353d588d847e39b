"""Rows in, one batched call, rows out; and the way back."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching import _torch_private as private
from plait.batching._lazy import Lazy
from plait.batching._meta import Meta, Space, meta_of
from plait.batching._program import Rows
from plait.batching._schedule import needed, plan
from plait.batching._signature import Sig

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


class Arena:
    """All rows of one space, in one tensor that grows."""

    __slots__ = ("buf", "space", "used")

    def __init__(self, space: Space, capacity: int) -> None:
        self.space = space
        self.used = 0
        self.buf = torch.empty((capacity, *space.inner), dtype=space.dtype, device=space.device)

    def take(self, rows: int) -> int:
        """Room for `rows` more rows; the first of them."""
        at = self.used
        need = at + rows
        if need > self.buf.shape[0]:
            bigger = torch.empty((max(need, 2 * self.buf.shape[0], 64), *self.space.inner), dtype=self.space.dtype,
                                 device=self.space.device)
            bigger[:at] = self.buf[:at]
            self.buf = bigger
        self.used = need
        return at


class Column:
    """Where the rows of one argument of a group are: a run, or an index."""

    __slots__ = ("count", "index", "space", "start", "unique")

    def __init__(self, space: Space, rows: list[int], device: torch.device) -> None:
        self.space = space
        self.count = len(rows)
        self.start = rows[0] if rows else 0
        self.index: Tensor | None = None
        if rows and rows != list(range(self.start, self.start + self.count)):
            self.index = torch.tensor(rows, device=device)

    def get(self, buf: Tensor) -> Tensor:
        if self.index is None:
            return buf[self.start:self.start + self.count]
        return buf.index_select(0, self.index)

    def add(self, grads: Tensor, g: Tensor) -> None:
        g = g.reshape(self.count, *self.space.inner)
        if g._base is grads:                                  # a gradient passed on as it is
            g = g.clone()
        if self.index is None:
            grads[self.start:self.start + self.count] += g
        else:
            grads.index_add_(0, self.index, g)


class Step:
    """One group that has run: what the way back needs."""

    __slots__ = ("columns", "outs", "rows", "saved", "sig")

    def __init__(self, sig: Sig, rows: Rows, columns: list[Column], outs: list[tuple[Space, int, int]], saved: Any) -> None:
        self.sig = sig
        self.rows = rows
        self.columns = columns
        self.outs = outs
        self.saved = saved


class Leaf:
    """A tensor from outside whose rows were copied in."""

    __slots__ = ("meta", "row", "slot", "tensor")

    def __init__(self, tensor: Tensor, slot: int, meta: Meta) -> None:
        self.tensor = tensor
        self.slot = slot
        self.meta = meta
        self.row = -1


class Executor:
    """Owns the rows; runs flushes; keeps the tape."""

    def __init__(self, rt: LaneRuntime) -> None:
        self.rt = rt
        self.arenas: dict[Space, Arena] = {}
        self.row_of: list[int] = []                           # slot -> row of its space, for everything that has run
        self.pending: list[Leaf] = []
        self.leaves: list[Leaf] = []
        self.tape: list[Step] = []
        self.gathers: dict[tuple[Space, bool], Sig] = {}
        self.shared: dict[int, Tensor] = {}                   # shared tensors that want a gradient

    # ------------------------------------------------------------------ slots and rows
    def arena(self, space: Space) -> Arena:
        a = self.arenas.get(space)
        if a is None:
            a = self.arenas[space] = Arena(space, 64)
        return a

    def _extend(self) -> None:
        missing = self.rt.next - len(self.row_of)
        if missing > 0:
            self.row_of.extend([-1] * missing)

    def done(self, slot: int) -> bool:
        return slot < len(self.row_of) and self.row_of[slot] >= 0

    def value(self, x: Lazy) -> Tensor:
        m = x.meta
        if not m.rows or not m.numel:
            return torch.empty(m.shape, dtype=m.dtype, device=m.device)
        row = self.row_of[x.slot]
        buf = self.arenas[m.space].buf
        return buf[row:row + m.rows].view(m.shape) if m.lead else buf[row]

    def add_leaf(self, t: Tensor, slot: int, meta: Meta) -> None:
        leaf = Leaf(t, slot, meta)
        self.pending.append(leaf)
        self.leaves.append(leaf)

    def load(self) -> None:
        """Copies the rows of new leaves in, one copy a space."""
        self._extend()
        by_space: dict[Space, list[Leaf]] = {}
        for leaf in self.pending:
            by_space.setdefault(leaf.meta.space, []).append(leaf)
        self.pending = []
        for space, leaves in by_space.items():
            arena = self.arena(space)
            total = sum(leaf.meta.rows for leaf in leaves)
            at = arena.take(total)
            if total:
                torch.cat([leaf.tensor.detach().reshape(leaf.meta.rows, *space.inner) for leaf in leaves],
                          out=arena.buf[at:at + total])
            for leaf in leaves:
                leaf.row = at
                k = leaf.meta.rows
                self.row_of[leaf.slot:leaf.slot + k] = range(at, at + k)
                at += k

    # ------------------------------------------------------------------ running
    def flush(self, slots: Iterable[int]) -> None:
        """Runs what these slots need, and nothing else: the rest waits for more company."""
        rt = self.rt
        with private.DisableTorchFunction(), torch.no_grad():
            if self.pending:
                self.load()
            self._extend()
            ids = needed(rt.nodes, rt.owner, slots)
            if ids:
                rt.report.flushes += 1
                for sig, group in plan(rt.nodes, rt.owner, ids):
                    self._run(sig, group)
                for i in ids:
                    rt.nodes[i] = None

    def gather_sig(self, space: Space, tracks: bool) -> Sig:
        sig = self.gathers.get((space, tracks))
        if sig is None:
            sig = self.gathers[(space, tracks)] = Sig(100_000 + len(self.gathers), "rows", None, [], "gather")
            sig.out_spaces, sig.out_rows, sig.out_tracks = [space], [-1], [tracks]
        return sig

    def _run(self, sig: Sig, nodes: list[Any]) -> None:
        n = len(nodes)
        row_of = self.row_of
        device = self.rt.device
        self.rt.report.group(sig.name, n)
        if sig.kind == "gather":
            space = sig.out_spaces[0]
            rows = [row_of[s] + i for node in nodes for s, k in node[3] for i in range(k)]
            arena = self.arena(space)
            at = arena.take(len(rows))
            column = Column(space, rows, device)
            if rows:
                arena.buf[at:at + len(rows)] = column.get(arena.buf)
            self._place(nodes, 0, [node[1] for node in nodes], at)
            if sig.out_tracks[0]:
                self.tape.append(Step(sig, Rows(n, None, device), [column], [(space, at, len(rows))], None))
            return
        assert sig.program is not None
        lengths = [node[1] for node in nodes] if sig.ragged else None
        ctx = Rows(n, lengths, device)
        columns: list[Column] = []
        args: list[Tensor] = []
        for j, (inner, ragged, space, per) in enumerate(sig.in_metas):
            rows = []
            for node in nodes:
                r = node[3][j]
                k = node[1] if ragged else per
                if k == 1:
                    rows.append(row_of[r])
                elif k:
                    first = row_of[r]
                    rows.extend(range(first, first + k))
            column = Column(space, rows, device)
            columns.append(column)
            batch = ctx.total if ragged else n
            args.append(column.get(self.arena(space).buf).reshape(batch, *inner))
        outs: list[tuple[Space, int, int]] = []
        slices: list[Tensor] = []
        offset: Any = 0
        for space, per in zip(sig.out_spaces, sig.out_rows):
            counts: Any = [node[1] for node in nodes] if per < 0 else per
            total = sum(counts) if isinstance(counts, list) else counts * n
            arena = self.arena(space)
            at = arena.take(total)
            self._place(nodes, offset, counts, at)
            outs.append((space, at, total))
            offset = self._after(offset, counts, n)
        for (space, at, total), v in zip(outs, sig.program.outs):
            val = sig.program.vals[v]
            slices.append(self.arenas[space].buf[at:at + total].view(ctx.total if val.ragged else n, *val.inner))
        saved = self._compute(sig, ctx, args, slices)
        if saved is not None:
            self.tape.append(Step(sig, ctx, columns, outs, saved))

    @staticmethod
    def _after(offset: Any, counts: Any, n: int) -> Any:
        if isinstance(offset, int) and isinstance(counts, int):
            return offset + counts
        a = [offset] * n if isinstance(offset, int) else offset
        b = [counts] * n if isinstance(counts, int) else counts
        return [x + y for x, y in zip(a, b)]

    def _place(self, nodes: list[Any], offset: Any, counts: Any, at: int) -> None:
        """Writes down the rows of one output of a group."""
        row_of = self.row_of
        fixed = isinstance(counts, int)
        for i, node in enumerate(nodes):
            k = counts if fixed else counts[i]
            s = node[2] + (offset if isinstance(offset, int) else offset[i])
            if k == 1:
                row_of[s] = at
            else:
                row_of[s:s + k] = range(at, at + k)
            at += k

    def _compute(self, sig: Sig, ctx: Rows, args: list[Tensor], outs: list[Tensor]) -> Any:
        program = sig.program
        assert program is not None
        tracks = any(sig.out_tracks)
        if sig.weights is None:
            sig.weights = [w.detach() for w in sig.shared]
            for w in sig.shared if tracks else ():
                if w.requires_grad:
                    self.shared[id(w)] = w
        if program.compiled is not None:
            saved = program.compiled.forward(ctx, args, sig.weights, outs)
            return saved if tracks else None
        if not tracks:
            for o, v in zip(outs, program.interpret(ctx, args, sig.weights)):
                o.copy_(v)
            return None
        with torch.enable_grad():
            leaves = [a.data.requires_grad_(program.vals[v].tracks) for v, a in zip(program.ins, args)]
            weights = [w.detach().requires_grad_(w.requires_grad) for w in sig.shared]
            values = program.interpret(ctx, leaves, weights)
        for o, v in zip(outs, values):
            o.copy_(v.detach())
        return leaves, weights, values

    # ------------------------------------------------------------------ calls that ran for one example at once
    def add_alone(self, outs: list[Any], reals: list[Tensor], lazies: list[Lazy], again: Any) -> list[Any]:
        rt = self.rt
        made: list[Any] = []
        places: list[tuple[Space, int, int]] = []
        kept: list[Tensor] = []
        which: list[int] = []
        with private.DisableTorchFunction(), torch.no_grad():
            for k, o in enumerate(outs):
                if not isinstance(o, Tensor):
                    made.append(o)
                    continue
                meta = meta_of(tuple(o.shape), o.dtype, o.device, o.requires_grad,
                               1 if o.dim() == 1 else None)
                x = Lazy(rt.next, meta, rt.lane, None)
                rt.take(meta.rows)
                self._extend()
                arena = self.arena(meta.space)
                at = arena.take(meta.rows)
                if meta.rows:
                    arena.buf[at:at + meta.rows] = o.detach().reshape(meta.rows, *meta.space.inner)
                self.row_of[x.slot:x.slot + meta.rows] = range(at, at + meta.rows)
                made.append(x)
                if o.requires_grad:
                    places.append((meta.space, at, meta.rows))
                    kept.append(o)
                    which.append(k)
            if kept:
                columns = []
                for r, x in zip(reals, lazies):
                    row = self.row_of[x.slot] if x.meta.rows else 0
                    columns.append(Column(x.meta.space, list(range(row, row + x.meta.rows)), rt.device))
                def rerun(xs: list[Tensor]) -> list[Tensor]:
                    res = again([x.reshape(r.shape) for x, r in zip(xs, reals)])
                    return [res[k] for k in which]
                sig = Sig(-1, "alone", None, [], "alone")
                self.tape.append(Step(sig, Rows(1, None), columns, places, (reals, [], kept, rerun)))
        return made

    # ------------------------------------------------------------------ the way back
    def backward(self, seeds: Sequence[tuple[Space, Tensor, Tensor]]) -> tuple[dict[Space, Tensor], dict[int, Tensor]]:
        """Gradients of all rows and of the shared tensors, from gradients of some rows."""
        grads: dict[Space, Tensor] = {}
        acc = Accumulator()

        def of(space: Space) -> Tensor:
            g = grads.get(space)
            if g is None:
                a = self.arenas[space]
                g = grads[space] = torch.zeros((a.used, *space.inner), dtype=space.dtype, device=space.device)
            return g
        for space, index, g in seeds:
            of(space).index_add_(0, index, g)
        for step in reversed(self.tape):
            if not any(space in grads for space, _, _ in step.outs):
                continue
            gouts = [of(space)[at:at + k] if space.floating else None for space, at, k in step.outs]
            if step.sig.kind == "gather":
                step.columns[0].add(of(step.columns[0].space), gouts[0])  # type: ignore[arg-type]
                continue
            for column, g in zip(step.columns, self._vjp(step, gouts, acc)):
                if g is not None and column.count:
                    column.add(of(column.space), g)
        return grads, acc.finish()

    def _vjp(self, step: Step, gouts: list[Any], acc: Accumulator) -> list[Tensor | None]:
        program = step.sig.program
        if program is not None and program.compiled is not None:
            return program.compiled.backward(step.rows, step.saved, _physical(step, gouts), step.sig.shared, step.sig.weights, acc)  # type: ignore[no-any-return]
        leaves, weights, outs = step.saved[:3]
        want = [t for t in (*leaves, *weights) if t.requires_grad]
        pairs = [(o, g.reshape(o.shape)) for o, g in zip(outs, gouts) if g is not None and o.requires_grad] \
            if program is not None else [(o, g.reshape(o.shape)) for o, g in zip(outs, gouts)]
        if not want or not pairs:
            return [None] * len(leaves)
        with torch.enable_grad():
            got = iter(torch.autograd.grad([o for o, _ in pairs], want, [g for _, g in pairs], allow_unused=True,
                                           retain_graph=True))
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


class Accumulator:
    """Gradients of shared tensors; those of weights in products wait for one product at the end."""

    def __init__(self) -> None:
        self.sums: dict[int, Tensor] = {}
        self.flat: dict[int, tuple[Tensor, list[Tensor], list[Tensor]]] = {}
        self.lookups: dict[tuple[int, int], tuple[Tensor, list[Tensor], list[Tensor]]] = {}
        self.products: dict[tuple[int, int], tuple[Tensor, Tensor | None, list[Tensor], list[Tensor]]] = {}

    def add(self, w: Tensor, g: Tensor) -> None:
        g = g.reshape(w.shape)
        old = self.sums.get(id(w))
        self.sums[id(w)] = g if old is None else old + g

    def linear(self, w: Tensor, b: Tensor | None, d: Tensor, x: Tensor) -> None:
        """`y = x @ w.T + b` with gradient `d` of y."""
        key = (id(w), id(b) if b is not None else 0)
        found = self.products.get(key)
        if found is None:
            found = self.products[key] = (w, b, [], [])
        found[2].append(d)
        found[3].append(x)

    def matmul(self, w: Tensor, d: Tensor, x: Tensor) -> None:
        """`y = x @ w` with gradient `d` of y."""
        if w.requires_grad:
            self.flat.setdefault(id(w), (w, [], []))[1].append(d)
            self.flat[id(w)][2].append(x)

    def lookup(self, w: Tensor, d: Tensor, ids: Tensor, pad: int | None) -> None:
        """`y = w[ids]` with gradient `d` of y."""
        if w.requires_grad:
            found = self.lookups.setdefault((id(w), -1 if pad is None else pad), (w, [], []))
            found[1].append(d.reshape(-1, w.shape[1]))
            found[2].append(ids.reshape(-1))

    def finish(self) -> dict[int, Tensor]:
        for w, ds, xs in self.flat.values():
            self.add(w, _rows(xs).t() @ _rows(ds))
        for (_, pad), (w, ds, ids) in self.lookups.items():
            self.add(w, torch.ops.aten.embedding_dense_backward(_rows(ds), torch.cat(ids), w.shape[0], pad, False))
        for w, b, ds, xs in self.products.values():
            d = _rows(ds)
            if w.requires_grad:
                self.add(w, d.t() @ _rows(xs))
            if b is not None and b.requires_grad:
                self.add(b, d.sum(0))
        return self.sums


def _rows(xs: list[Tensor]) -> Tensor:
    return torch.cat(xs) if len(xs) > 1 else xs[0]
