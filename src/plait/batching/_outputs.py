"""From what the lanes returned to what the caller gets; one autograd node for the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._backward import backward
from plait.batching._lazy import BatchError, Lazy
from plait.batching._marks import INPUT, Const
from plait.batching._meta import Space
from plait.batching._replay import replay
from plait.batching._writes import fresh
from plait.graph._uncollected import uncollected

if TYPE_CHECKING:
    from plait.batching._execute import Executor
    from plait.batching._runtime import LaneRuntime


class Output:
    """One tensor to hand out: some rows of a space."""

    __slots__ = ("index", "live", "shape", "space", "tracks")

    def __init__(self, space: Space, index: Tensor, shape: tuple[int, ...], tracks: bool, live: Tensor | None) -> None:
        self.live = live  # which rows want a gradient, where not all do
        self.space = space
        self.index = index
        self.shape = shape
        self.tracks = tracks


class BatchNode(torch.autograd.Function):
    """The whole batch as autograd sees it: leaves in, results out. Behind the leaves come tensors of the examples that
    a recording has seen, so that it sees where the batch has its rows from."""

    @staticmethod
    def forward(ctx: Any, holder: _Holder, *tensors: Tensor) -> Any:
        ctx.holder = holder
        ctx.given = len(tensors)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors[: len(holder.order)])
        outs = [holder.value(o) for o in holder.outputs]
        ctx.mark_non_differentiable(*[t for t, o in zip(outs, holder.outputs) if not o.tracks])
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *gouts: Tensor | None) -> Any:
        leaves = ctx.saved_tensors  # also PyTorch's own check for writes since the forward
        holder: _Holder = ctx.holder
        rest = [None] * (ctx.given - len(leaves))
        if torch.is_grad_enabled():
            return (None, *holder.plain(leaves, gouts), *rest)
        keep = private.keep_graph()
        try:
            with uncollected(), private.DisableTorchFunction():  # a recording has one node for all of this
                grads = holder.grads(leaves, gouts, ctx.needs_input_grad[1 : 1 + len(leaves)], keep)
        finally:
            if not keep:
                holder.release()
        return (None, *grads, *rest)


class _Holder:
    """What the backward pass needs of a run."""

    def __init__(self, ex: Executor, outputs: list[Output], leaves: list[Tensor], zero: set[int]) -> None:
        self.ex: Executor | None = ex
        self.outputs = outputs
        self.order = [id(t) for t in leaves]
        self.zero = zero
        self.rows: dict[int, list[Any]] = {}
        for leaf in ex.leaves:
            if leaf.meta.tracks:
                self.rows.setdefault(id(leaf.tensor), []).append(leaf)

    def value(self, o: Output) -> Tensor:
        assert self.ex is not None
        return self.ex.arena(o.space).buf.index_select(0, o.index).view(o.shape)

    def release(self) -> None:
        """Frees the saved numbers, as PyTorch does after a backward pass that need not be repeated."""
        self.ex = None

    def grads(
        self, leaves: Sequence[Tensor], gouts: Sequence[Tensor | None], needs: Sequence[bool], keep: bool
    ) -> list[Tensor | None]:
        ex = self.ex
        assert ex is not None
        seeds = []
        for o, g in zip(self.outputs, gouts):
            if g is not None and o.tracks:
                index, g = o.index, g.reshape(-1, *o.space.inner)
                seeds.append((o.space, index, g) if o.live is None else (o.space, index[o.live], g[o.live]))
        rows, shared = backward(ex, seeds, keep)
        res: list[Tensor | None] = []
        for t, key, need in zip(leaves, self.order, needs):
            if not need:
                res.append(None)
                continue
            g = shared.get(key)
            for leaf in self.rows.get(key, ()):
                buf = rows.get(leaf.meta.space)
                if buf is not None:
                    part = buf[leaf.row : leaf.row + leaf.meta.rows].reshape(t.shape)
                    g = part if g is None else g + part
            if g is None and key in self.zero:
                g = torch.zeros_like(t)
            res.append(g)
        return res

    def plain(self, leaves: Sequence[Tensor], gouts: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The same through plain autograd, so that the result can be differentiated again."""
        assert self.ex is not None
        # Names of their own: one leaf may be made of another, and what goes on from it is not asked for here.
        own = [t.view_as(t) if t.requires_grad else t for t in leaves]
        outs = replay(self.ex, dict(zip(self.order, own)), self.outputs)
        pairs = [(o, g) for o, g in zip(outs, gouts) if g is not None and o.requires_grad]
        want = [t for t in own if t.requires_grad]
        if not pairs or not want:
            return [None] * len(leaves)
        got = iter(
            torch.autograd.grad(
                [o for o, _ in pairs], want, [g for _, g in pairs], create_graph=True, allow_unused=True
            )
        )
        return [next(got) if t.requires_grad else None for t in leaves]


def as_row(rt: LaneRuntime, x: Any, example: int) -> Lazy:
    """A result of an example as a value with rows."""
    rt.lane = lane = rt.lane_of(example)
    if type(x) is Lazy:
        if type(x.extra) is Const:
            return rt.promote(x.extra.tensor)
        if x.lane != lane:
            rt.foreign(x)
        if x.extra is not None and x.extra is not INPUT:
            fresh(rt, x)
        return x
    return rt.promote(x)


def collect(
    rt: LaneRuntime, columns: list[list[Lazy]], layout: torch.layout, parameters: list[Tensor]
) -> list[tuple[str, Any]]:
    """For each column (one result of all lanes) a stacked tensor, or parts of different shapes."""
    ex = rt.exec
    outputs: list[Output] = []
    shapes: list[Any] = []
    for column in columns:
        metas = [x.meta for x in column]
        space = metas[0].space
        tracks = any(m.tracks for m in metas)
        if any(m.space is not space for m in metas):
            shapes.append(None)  # nothing in common: one output each
            for x in column:
                outputs.append(_output(rt, [x], x.meta.space, tuple(x.meta.shape), x.meta.tracks))
            continue
        same = all(m.shape == metas[0].shape for m in metas)
        rows = sum(m.rows for m in metas)
        shape = (len(column), *metas[0].shape) if same else (rows, *space.inner)
        shapes.append((same, [m.rows for m in metas]))
        outputs.append(_output(rt, column, space, shape, tracks))
    leaves: list[Tensor] = []
    seen: set[int] = set()
    for t in (*ex.shared.values(), *[leaf.tensor for leaf in ex.leaves if leaf.meta.tracks], *parameters):
        if t.requires_grad and id(t) not in seen:
            seen.add(id(t))
            leaves.append(t)
    if rt.report.sites:  # values that only decisions used have no gradient in the loop
        reached = rt.core.reach(
            [x.slot + r for c in columns for x in c if x.meta.tracks for r in range(x.meta.rows)] + ex.alone_slots
        )
        for arena, flags in zip(ex.order, reached):
            arena.live = flags if 0 in flags[arena.given :] else None
    holder = _Holder(ex, outputs, leaves, {id(p) for p in parameters})
    if leaves and torch.is_grad_enabled() and any(o.tracks for o in outputs):
        others = [] if rt.watch is None else rt.watch.seen([leaf.tensor for leaf in ex.leaves])
        tensors = list(BatchNode.apply(holder, *leaves, *others))  # type: ignore[no-untyped-call]
    else:
        tensors = [holder.value(o) for o in outputs]
    res: list[tuple[str, Any]] = []
    it = iter(tensors)
    for column, s in zip(columns, shapes):
        if s is None:
            parts = [next(it) for _ in column]
            # Rows or one row: an example outside of the lanes does not tell; their shapes do.
            same = all(p.shape == parts[0].shape and p.dtype == parts[0].dtype for p in parts)
            res.append(("stacked", torch.stack(parts)) if same else ("parts", parts))
        elif s[0]:
            res.append(("stacked", next(it)))
        else:
            values = next(it)
            if layout == torch.jagged:
                res.append(("jagged", _jagged(values, s[1])))
            else:
                res.append(("parts", list(values.split(s[1]))))
    return res


def _jagged(values: Tensor, lengths: list[int]) -> Tensor:
    offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=values.device)
    torch.cumsum(torch.tensor(lengths, device=values.device), 0, out=offsets[1:])
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _output(rt: LaneRuntime, column: list[Lazy], space: Space, shape: tuple[int, ...], tracks: bool) -> Output:
    row_of = rt.core.row_of
    rows: list[int] = []
    for x in column:
        k = x.meta.rows
        if k == 1:
            rows.append(row_of(x.slot))
        elif k:
            rows.extend(range(row_of(x.slot), row_of(x.slot) + k))
    live = None
    if tracks and not all(x.meta.tracks for x in column):
        live = torch.tensor([x.meta.tracks for x in column for _ in range(x.meta.rows)], device=space.device)
    return Output(space, torch.tensor(rows, dtype=torch.int64, device=space.device), shape, tracks, live)


__all__ = ["BatchError", "as_row", "collect"]
