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
from plait.batching._arena import Arena, Column, take
from plait.batching._hoist import Product, hoist
from plait.batching._lazy import Lazy
from plait.batching._meta import Meta, Space, meta_of, space_of
from plait.batching._program import Rows
from plait.batching._signature import Sig, autocast
from plait.batching._site import refuse

if TYPE_CHECKING:
    from plait.batching._alone import Ran
    from plait.batching._runtime import LaneRuntime


class Step:
    """One group that has run: what the way back needs. `outs` are (arena, first row, rows)."""

    __slots__ = ("columns", "outs", "rows", "saved", "sig")

    def __init__(
        self, sig: Sig, rows: Rows, columns: list[Column], outs: list[tuple[Arena, int, int]], saved: Any
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
        self.one_each: dict[int, Rows] = {}  # for groups whose calls have one row each
        self.products: dict[Any, Product] = {}
        self.alone_slots: list[int] = []  # inputs of calls that ran for one example
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
        arena.reserve(at + rows)
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

    def number(self, value: float, like: Meta) -> int:
        """The slot of a row that holds this number, in the dtype of `like`."""
        space = space_of((), like.dtype, like.device)
        with private.DisableTorchFunction(), torch.no_grad():
            at = self.room(space, 1)
            self.arenas[space].buf[at] = value
        slot: int = self.rt.take(1)
        self.rt.core.place(slot, at, 1)
        return slot

    def add_leaf(self, t: Tensor, slot: int, meta: Meta) -> None:
        self._wait([Leaf(t, slot, meta)])

    def add_leaves(self, tensors: Sequence[Tensor], values: Sequence[Lazy], metas: Sequence[Meta]) -> None:
        self._wait([Leaf(t, x.slot, m) for t, x, m in zip(tensors, values, metas)])

    def _wait(self, leaves: list[Leaf]) -> None:
        self.pending += leaves
        self.leaves += leaves

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
            arena = self.arenas[space]
            if not at:
                arena.given = total
                arena.blank = 0 if any(leaf.meta.tracks for leaf in leaves) else total
            if total:
                self._copy_in(leaves, arena.buf[at : at + total])
            slot = start = at_start = -1  # leaves whose slots follow one another get their rows together
            for leaf in leaves:
                if leaf.slot != slot:
                    if slot > start:
                        place(start, at_start, slot - start)
                    start, at_start, slot = leaf.slot, at, leaf.slot
                leaf.row = at
                at += leaf.meta.rows
                slot += leaf.meta.rows
            if slot > start:
                place(start, at_start, slot - start)

    def _copy_in(self, leaves: list[Leaf], rows: Tensor) -> None:
        if all(not leaf.meta.lead for leaf in leaves):
            torch.stack([leaf.tensor for leaf in leaves], out=rows)
        else:
            torch.cat([leaf.tensor if leaf.meta.lead else leaf.tensor.unsqueeze(0) for leaf in leaves], out=rows)

    def end_forward(self) -> None:
        """Gives back what only the forward pass needed."""
        for product in self.products.values():
            for arena in product.arenas:
                arena.buf = arena.buf.new_empty((0, *arena.space.inner))

    # ------------------------------------------------------------------ running
    def flush(self, slots: Sequence[int], asked: Counter[Asked] | None = None) -> None:
        """Runs what these slots need, and nothing else: the rest waits for more company. `asked`: where examples wait
        for a value, and how many do."""
        grad = torch.is_grad_enabled()
        with private.DisableTorchFunction():
            private.set_grad_enabled(False)
            try:
                self._flush(slots, asked)
            finally:
                private.set_grad_enabled(grad)

    def _flush(self, slots: Sequence[int], asked: Counter[Asked] | None) -> None:
        rt = self.rt
        if self.pending:
            self.load()
        groups, packed, sizes = rt.core.plan(slots)
        if not groups:
            return
        rt.report.flushes += 1
        if rt.watch is not None:
            rt.watch.flush(asked.total() if asked else 0, asked.most_common(1)[0][0] if asked else None)
        for arena, used in zip(self.order, rt.core.used()):
            if used != arena.filled:
                arena.reserve(used)
        pieces: Sequence[Tensor] = ()
        if packed:
            index = torch.frombuffer(packed, dtype=torch.int64)
            pieces = torch.split_with_sizes(index if rt.device.type == "cpu" else index.to(rt.device), sizes)
        for group in groups:
            rt.sig_list[group[0]].seen += group[1]
        for group in groups:
            if rt.watch is None:
                self._run(group, pieces)
            else:
                self._run_watched(group, pieces, rt.watch)

    def _run_watched(self, group: Any, pieces: Sequence[Tensor], watch: BatchWatch) -> None:
        start = time.perf_counter_ns()
        self._run(group, pieces)
        name = self.rt.sig_list[group[0]].name
        watch.group(name, group[1], group[5], group[6], time.perf_counter_ns() - start)

    def gather_sig(self, space: Space, tracks: bool) -> Sig:
        sig = self.gathers.get((space, tracks))
        if sig is None:
            sig = self.gathers[(space, tracks)] = Sig(len(self.rt.sig_list), "rows", None, [], "gather")
            sig.out_spaces, sig.out_rows, sig.out_tracks = [space], [-1], [tracks]
            self.rt.add_sig(sig)
            sig.ins = sig.outs  # the same arena
        return sig

    def _run(self, group: Any, pieces: Sequence[Tensor]) -> None:
        number, n, lengths, cols, places, lanes, _ = group
        rt = self.rt
        sig = rt.sig_list[number]
        rt.report.group(sig.name, n)
        columns: list[Column] = [
            (arena, start, count, None if piece is None else pieces[piece])
            for arena, (start, count, piece, _) in zip(sig.ins, cols)
        ]
        outs = [(arena, at, total) for arena, (at, total) in zip(sig.outs, places)]
        if sig.kind == "gather":
            self._gather(sig, columns, outs)
            return
        if sig.hoist is not None:
            done = sig.hoisted or hoist(self, sig)
            if done is not None and cols[done.column][3] <= done.rows:
                sig, columns = done.rest, done.columns(columns)
        if lengths is None:
            ctx = self.one_each.get(n)
            if ctx is None:
                ctx = self.one_each[n] = Rows(n, None, rt.device)
        else:
            ctx = Rows(n, lengths, rt.device)
        args = [take(column[0].buf, column) for column in columns]
        for k in sig.own:
            if columns[k][3] is None:  # not a copy yet
                args[k] = args[k].clone()
        slices = [arena.buf[at : at + total] for arena, at, total in outs]
        if not sig.simple:
            args, slices = self._shaped(sig, ctx, args, slices)
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

    def _gather(self, sig: Sig, columns: list[Column], outs: list[tuple[Arena, int, int]]) -> None:
        arena, at, total = outs[0]
        if total:
            arena.buf[at : at + total] = take(arena.buf, columns[0])
        if sig.out_tracks[0]:
            self.tape.append(Step(sig, Rows(total, None, self.rt.device), columns, outs, None))

    def _shaped(
        self, sig: Sig, ctx: Rows, args: list[Tensor], slices: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Rows in the shapes that the program works with."""
        program = sig.program
        assert program is not None
        for k, (inner, ragged, space, _) in enumerate(sig.in_metas):
            if inner != space.inner or ragged:
                args[k] = args[k].reshape(ctx.total if ragged else ctx.n, *inner)
        for k, (space, v) in enumerate(zip(sig.out_spaces, program.outs)):
            val = program.vals[v]
            if val.inner != space.inner:
                slices[k] = slices[k].view(ctx.total if val.ragged else ctx.n, *val.inner)
        return args, slices

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
        weights = sig.weights
        if weights is None:
            weights = sig.load_weights()
            for w in sig.shared if sig.tracks else ():
                if w.requires_grad:
                    self.shared[id(w)] = w
        if program.compiled is not None:
            saved = program.compiled.forward(ctx, args, weights, outs)
            return saved if sig.tracks else None
        if not sig.tracks:
            for o, v in zip(outs, program.interpret(ctx, args, weights)):
                o.copy_(v)
            return None
        with torch.enable_grad():
            leaves = [a.data.requires_grad_(program.vals[v].tracks) for v, a in zip(program.ins, args)]
            own = [w.detach().requires_grad_(w.requires_grad) for w in sig.shared]
            values = program.interpret(ctx, leaves, own)
        for o, v in zip(outs, values):
            o.copy_(v.detach())
        return leaves, own, values

    # ------------------------------------------------------------------ calls that ran for one example at once
    def add_alone(self, outs: list[Any], ran: Ran) -> list[Any]:
        rt = self.rt
        made: list[Any] = []
        places: list[tuple[Arena, int, int]] = []
        kept: list[Tensor] = []
        which: list[int] = []
        with private.DisableTorchFunction(), torch.no_grad():
            for k, o in enumerate(outs):
                if not isinstance(o, Tensor):
                    made.append(o)
                    continue
                if o.layout != torch.strided:
                    refuse(
                        "a sparse or nested tensor of an example inside plait.batch", "make it outside of plait.batch"
                    )
                meta = meta_of(tuple(o.shape), o.dtype, o.device, o.requires_grad, 1 if o.dim() == 1 else None)
                x = Lazy(rt.take(meta.rows), meta, rt.lane, None)
                at = self.room(meta.space, meta.rows)
                arena = self.arenas[meta.space]
                if meta.rows:
                    arena.buf[at : at + meta.rows] = o.detach().reshape(meta.rows, *meta.space.inner)
                rt.core.place(x.slot, at, meta.rows)
                made.append(x)
                if o.requires_grad:
                    places.append((arena, at, meta.rows))
                    kept.append(o)
                    which.append(k)
            if kept:
                self.alone_slots += [x.slot + r for x in ran.values for r in range(x.meta.rows)]
                columns: list[Column] = [
                    (self.arenas[x.meta.space], max(rt.core.row_of(x.slot), 0), x.meta.rows, None) for x in ran.values
                ]

                def rerun(xs: list[Tensor], shared: list[Tensor]) -> list[Tensor]:
                    out = ran.again([x.reshape(r.shape) for x, r in zip(xs, ran.reals)], shared)
                    return [out] if isinstance(out, Tensor) else [out[k] for k in which]

                self.shared.update((id(w), w) for w in ran.shared)
                sig = Sig(-1, "alone", None, ran.shared, "alone")
                self.tape.append(Step(sig, Rows(1, None), columns, places, (ran.reals, ran.weights, kept, rerun)))
        return made
