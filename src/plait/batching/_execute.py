"""Rows in, one batched call, rows out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait._watch import Asked, BatchWatch
from plait.batching._lazy import Lazy
from plait.batching._meta import Meta, Space, meta_of
from plait.batching._program import Rows
from plait.batching._signature import Sig, autocast

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


class Arena:
    """All rows of one space, in one tensor that grows; the core hands out the rows."""

    __slots__ = ("buf", "number", "space")

    def __init__(self, space: Space, number: int) -> None:
        self.space = space
        self.number = number
        self.buf = torch.empty((0, *space.inner), dtype=space.dtype, device=space.device)

    def reserve(self, used: int, kept: int) -> None:
        """Room for `used` rows, of which `kept` are there already."""
        if used > self.buf.shape[0]:
            bigger = torch.empty(
                (max(used, 2 * self.buf.shape[0], 64), *self.space.inner),
                dtype=self.space.dtype,
                device=self.space.device,
            )
            kept = min(kept, self.buf.shape[0])
            bigger[:kept] = self.buf[:kept]
            self.buf = bigger


class Column:
    """Where the rows of one argument of a group are: a run, or an index."""

    __slots__ = ("count", "index", "space", "start")

    def __init__(self, space: Space, start: int, count: int, index: Tensor | None) -> None:
        self.space = space
        self.start = start
        self.count = count
        self.index = index

    def get(self, buf: Tensor) -> Tensor:
        if self.index is None:
            return buf[self.start : self.start + self.count]
        return buf.index_select(0, self.index)

    def add(self, grads: Tensor, g: Tensor) -> None:
        g = g.reshape(self.count, *self.space.inner)
        if g._base is grads:  # a gradient passed on as it is
            g = g.clone()
        if self.index is None:
            grads[self.start : self.start + self.count] += g
        else:
            grads.index_add_(0, self.index, g)


class Step:
    """One group that has run: what the way back needs."""

    __slots__ = ("columns", "outs", "rows", "saved", "sig")

    def __init__(
        self, sig: Sig, rows: Rows, columns: list[Column], outs: list[tuple[Space, int, int]], saved: Any
    ) -> None:
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
        self.order: list[Arena] = []
        self.pending: list[Leaf] = []
        self.leaves: list[Leaf] = []
        self.tape: list[Step] = []
        self.autocast = private.autocast_state()
        self.alone_slots: list[int] = []  # inputs of calls that ran for one example
        self.live: list[bytearray] | None = None  # rows that a result depends on, if not all do
        self.gathers: dict[tuple[Space, bool], Sig] = {}
        self.shared: dict[int, Tensor] = {}  # shared tensors that want a gradient

    # ------------------------------------------------------------------ slots and rows
    def add_arena(self, space: Space) -> None:
        with private.DisableTorchFunction():
            self.arenas[space] = arena = Arena(space, len(self.order))
        self.order.append(arena)

    def arena(self, space: Space) -> Arena:
        self.rt.space_id(space)
        return self.arenas[space]

    def room(self, space: Space, rows: int) -> int:
        """New rows of a space, now; the first of them."""
        arena = self.arena(space)
        at = self.rt.core.room(arena.number, rows)
        arena.reserve(at + rows, at)
        return at  # type: ignore[no-any-return]

    def done(self, slot: int) -> bool:
        return self.rt.core.row_of(slot) >= 0  # type: ignore[no-any-return]

    def value(self, x: Lazy) -> Tensor:
        m = x.meta
        if not m.rows or not m.numel:
            return torch.empty(m.shape, dtype=m.dtype, device=m.device)
        row = self.rt.core.row_of(x.slot)
        buf = self.arenas[m.space].buf
        return buf[row : row + m.rows].view(m.shape) if m.lead else buf[row]

    def add_leaf(self, t: Tensor, slot: int, meta: Meta) -> None:
        leaf = Leaf(t, slot, meta)
        self.pending.append(leaf)
        self.leaves.append(leaf)

    def load(self) -> None:
        """Copies the rows of new leaves in, one copy a space."""
        by_space: dict[Space, list[Leaf]] = {}
        for leaf in self.pending:
            by_space.setdefault(leaf.meta.space, []).append(leaf)
        self.pending = []
        place = self.rt.core.place
        for space, leaves in by_space.items():
            total = sum(leaf.meta.rows for leaf in leaves)
            at = self.room(space, total)
            if total:
                parts = [leaf.tensor.detach() if leaf.meta.lead else leaf.tensor.detach()[None] for leaf in leaves]
                torch.cat(parts, out=self.arenas[space].buf[at : at + total])
            for leaf in leaves:
                leaf.row = at
                place(leaf.slot, at, leaf.meta.rows)
                at += leaf.meta.rows

    # ------------------------------------------------------------------ running
    def flush(self, slots: Sequence[int], asked: Counter[Asked] | None = None) -> None:
        """Runs what these slots need, and nothing else: the rest waits for more company. `asked`: where examples wait
        for a value, and how many do."""
        rt = self.rt
        with private.DisableTorchFunction(), torch.no_grad():
            if self.pending:
                self.load()
            before = [rt.core.used(a.number) for a in self.order]
            groups, packed = rt.core.plan(slots)
            if not groups:
                return
            rt.report.flushes += 1
            if rt.watch is not None:
                rt.watch.flush(asked.total() if asked else 0, asked.most_common(1)[0][0] if asked else None)
            for a, kept in zip(self.order, before):
                a.reserve(rt.core.used(a.number), kept)
            index = torch.frombuffer(packed, dtype=torch.int64) if packed else None
            if index is not None and rt.device.type != "cpu":
                index = index.to(rt.device)
            for group in groups:
                if rt.watch is None:
                    self._run(group, index)
                else:
                    self._run_watched(group, index, rt.watch)

    def _run_watched(self, group: Any, index: Tensor | None, watch: BatchWatch) -> None:
        start = time.perf_counter_ns()
        self._run(group, index)
        name = self.rt.sig_list[group[0]].name
        watch.group(name, group[1], group[5], group[6], time.perf_counter_ns() - start)

    def gather_sig(self, space: Space, tracks: bool) -> Sig:
        sig = self.gathers.get((space, tracks))
        if sig is None:
            sig = self.gathers[(space, tracks)] = Sig(len(self.rt.sig_list), "rows", None, [], "gather")
            sig.out_spaces, sig.out_rows, sig.out_tracks = [space], [-1], [tracks]
            self.rt.add_sig(sig)
        return sig

    def _run(self, group: Any, index: Tensor | None) -> None:
        number, n, lengths, cols, places, lanes, _ = group
        sig = self.rt.sig_list[number]
        self.rt.report.group(sig.name, n)
        spaces = sig.out_spaces if sig.kind == "gather" else [m[2] for m in sig.in_metas]
        columns = [
            Column(space, start, count, None if off is None else index[off : off + count])  # type: ignore[index]
            for space, (start, count, off) in zip(spaces, cols)
        ]
        outs = [(space, at, total) for space, (at, total) in zip(sig.out_spaces, places)]
        if sig.kind == "gather":
            space, at, total = outs[0]
            buf = self.arenas[space].buf
            column = columns[0]
            if column.index is not None:
                buf[at : at + total] = buf.index_select(0, column.index)
            elif total:
                buf[at : at + total] = buf[column.start : column.start + total]
            if sig.out_tracks[0]:
                self.tape.append(Step(sig, Rows(n, None, self.rt.device), columns, outs, None))
            return
        program = sig.program
        assert program is not None
        ctx = Rows(n, lengths, self.rt.device)
        args = []
        for column, (inner, ragged, space, _) in zip(columns, sig.in_metas):
            a = column.get(self.arenas[space].buf)
            if inner != space.inner or ragged:
                a = a.reshape(ctx.total if ragged else n, *inner)
            args.append(a)
        slices: list[Tensor] = []
        for (space, at, total), v in zip(outs, program.outs):
            val = program.vals[v]
            o = self.arenas[space].buf[at : at + total]
            inner = val.inner
            if inner != space.inner:
                o = o.view(ctx.total if val.ragged else n, *inner)
            slices.append(o)
        try:
            if sig.autocast is False or sig.autocast == self.autocast:
                saved = self._compute(sig, ctx, args, slices)
            else:
                with autocast(sig.autocast):
                    saved = self._compute(sig, ctx, args, slices)
        except Exception as e:
            self._blame(e, sig, ctx, args, lanes)
            raise
        if saved is not None:
            self.tape.append(Step(sig, ctx, columns, outs, saved))

    def _blame(self, e: Exception, sig: Sig, ctx: Rows, args: list[Tensor], lanes: bytes) -> None:
        """Finds the example whose numbers a group fails on."""
        program = sig.program
        assert program is not None
        at = 0
        for k, lane in enumerate(memoryview(lanes).cast("i")):
            length = ctx.lengths[k] if ctx.lengths is not None else 1
            own = []
            for (_, ragged, _, _), a in zip(sig.in_metas, args):
                own.append(a[at : at + length] if ragged else a[k : k + 1])
            try:
                program.interpret(
                    Rows(1, [length] if ctx.lengths is not None else None, self.rt.device),
                    own,
                    sig.weights or sig.shared,
                )
            except Exception:
                e.add_note(f"plait.batch: in `{sig.name}` of example {lane}")
                return
            at += length

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
                meta = meta_of(tuple(o.shape), o.dtype, o.device, o.requires_grad, 1 if o.dim() == 1 else None)
                x = Lazy(rt.take(meta.rows), meta, rt.lane, None)
                at = self.room(meta.space, meta.rows)
                if meta.rows:
                    self.arenas[meta.space].buf[at : at + meta.rows] = o.detach().reshape(meta.rows, *meta.space.inner)
                rt.core.place(x.slot, at, meta.rows)
                made.append(x)
                if o.requires_grad:
                    places.append((meta.space, at, meta.rows))
                    kept.append(o)
                    which.append(k)
            if kept:
                self.alone_slots += [x.slot + r for x in lazies for r in range(x.meta.rows)]
                columns = []
                for _r, x in zip(reals, lazies):
                    columns.append(Column(x.meta.space, max(rt.core.row_of(x.slot), 0), x.meta.rows, None))

                def rerun(xs: list[Tensor]) -> list[Tensor]:
                    res = again([x.reshape(r.shape) for x, r in zip(xs, reals)])
                    return [res[k] for k in which]

                sig = Sig(-1, "alone", None, [], "alone")
                self.tape.append(Step(sig, Rows(1, None), columns, places, (reals, [], kept, rerun)))
        return made
