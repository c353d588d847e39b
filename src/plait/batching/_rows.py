"""Joins and tensor views that only name rows: no call, or a copy of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching._build import SMALL
from plait.batching._core_choice import Entry
from plait.batching._lazy import Lazy
from plait.batching._marks import INPUT, Alias, Const, Written
from plait.batching._meta import meta_of
from plait.batching._writes import fresh, row_chain

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


def join(rt: LaneRuntime, name: str, args: Any, kwargs: Any) -> Any:
    """`cat` along rows and `stack` of rows: a copy of rows, whatever their number."""
    xs = args[0] if args else kwargs.get("tensors")
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if dim != 0 or type(xs) not in (list, tuple) or not xs or len(kwargs) > 1:
        return None
    lead = 1 if name == "cat" else 0
    flat = rt.core.parts(xs)
    if flat is not NotImplemented and type(xs[0].extra) is not Lazy:
        m = xs[0].meta
        if m.lead != lead:
            return None
        rows = m.rows * len(xs)
        tracks = m.tracks and torch.is_grad_enabled()
        sig = rt.exec.gather_sig(m.space, tracks)
        meta = meta_of((rows, *m.space.inner), m.dtype, m.device, tracks, 1)
        rt.entries[(m, rows, torch.is_grad_enabled())] = Entry(sig.index, rows, rows, (0,), (meta,), 1, None)
        return Lazy(rt.core.put(sig.index, rows, flat, rows), meta, rt.lane, None)
    parts: list[Lazy] = []
    for x in xs:
        if type(x) is not Lazy:
            if not isinstance(x, Tensor) or x.numel() > SMALL:
                return None
            x = rt.promote(x)
        elif type(x.extra) is Const:
            x = rt.promote(x.extra.tensor)
        elif x.extra is not None and x.extra is not INPUT:
            fresh(rt, x)
        if x.lane != rt.lane:
            rt.foreign(x)
        parts.append(x)
    m0 = parts[0].meta
    tracks = False
    space = m0.space
    rows = 0
    for x in parts:
        m = x.meta
        if m.space is not space or m.lead != lead:
            return None
        tracks = tracks or m.tracks
        rows += m.rows
    tracks = tracks and torch.is_grad_enabled()
    if tracks:  # a detached name shares rows that do want a gradient: copy those
        parts = [
            rt.emit("detach", (x,), {}) if not x.meta.tracks and x.extra is not None and x.extra is not INPUT else x
            for x in parts
        ]
    meta = meta_of((rows, *space.inner), space.dtype, space.device, tracks, 1)
    slot = parts[0].slot
    at = slot
    root = parts[0].extra
    for x in parts:
        if x.slot != at or x.meta.tracks != tracks or x.extra is not root or type(root) is not Lazy:
            break
        at += x.meta.rows
    else:
        return Lazy(slot, meta, rt.lane, None)  # the rows already follow one another
    sig = rt.exec.gather_sig(space, tracks)
    base = rt.core.put(sig.index, rows, tuple([k for x in parts for k in (x.slot, x.meta.rows)]), rows)
    return Lazy(base, meta, rt.lane, None)


def rows_view(rt: LaneRuntime, name: str, x: Lazy, args: Any, kwargs: Any) -> Any:
    """Views that only name other rows: x[t], x[a:b], iteration, a dimension of one added or taken in front."""
    m = x.meta
    e = x.extra
    root = x if e is None or e is INPUT or type(e) is Written else e if type(e) is Lazy else None
    if root is None or (type(root.extra) is Written):
        return None
    if name == "__getitem__":
        i = args[0]
        if type(i) is tuple and len(i) == 1:
            i = i[0]
        if m.lead and type(i) is int:
            n = m.rows
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for dimension 0 with size {n}")
            return _row(rt, x, root, i % n if n else 0, 1, 0)
        if m.lead and type(i) is slice and i.step in (None, 1):
            start, stop, _ = i.indices(m.rows)
            return _row(rt, x, root, start, max(stop - start, 0), 1)
        if i is None and not m.lead:
            return _row(rt, x, root, 0, 1, 1)
        return None
    if name == "unbind" and m.lead and (args[0] if args else kwargs.get("dim", 0)) in (0, -len(m.shape)):
        return tuple([_row(rt, x, root, i, 1, 0) for i in range(m.rows)])
    if name in ("split", "chunk", "split_with_sizes") and m.lead and len(args) == 1 and not kwargs:
        return _split(rt, name, x, root, args[0])
    if name == "unsqueeze" and not m.lead and not kwargs and args and args[0] in (0, -len(m.shape) - 1):
        return _row(rt, x, root, 0, 1, 1)
    if name == "squeeze" and m.lead and m.rows == 1 and not kwargs and args and args[0] in (0, -len(m.shape)):
        return _row(rt, x, root, 0, 1, 0)
    if name in ("select", "narrow") and m.lead and not kwargs and args and args[0] in (0, -len(m.shape)):
        return (
            rows_view(
                rt,
                "__getitem__",
                x,
                (args[1] if name == "select" else slice(args[1], args[1] + args[2]),),
                {},
            )
            if all(type(a) is int for a in args) and (name == "select" or 0 <= args[1] <= m.rows - args[2])
            else None
        )
    if name in ("view", "reshape"):
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if (
            not m.lead
            and len(shape) == len(m.shape) + 1
            and shape[0] in (1, -1)
            and tuple(shape[1:]) in (tuple(m.shape), (-1,) if shape[0] == 1 and len(m.shape) == 1 else ())
        ):
            return _row(rt, x, root, 0, 1, 1)
        if m.lead and m.rows == 1 and len(m.shape) == 2 and len(shape) == 1 and shape[0] in (-1, m.shape[1]):
            return _row(rt, x, root, 0, 1, 0)
    return None


def _row(rt: LaneRuntime, x: Lazy, root: Lazy, at: int, count: int, lead: int) -> Lazy:
    m = x.meta
    inner = m.space.inner
    tracks = m.tracks and torch.is_grad_enabled()
    meta = meta_of((count, *inner) if lead else inner, m.dtype, m.device, tracks, lead)
    view = Lazy(x.slot + at, meta, rt.lane, root)
    if m.tracks and not tracks:
        view.extra = Alias(root, row_chain(view, root), 0, False)
    return view


def _split(rt: LaneRuntime, name: str, x: Lazy, root: Lazy, how: Any) -> Any:
    n = x.meta.rows
    if name == "chunk":
        if type(how) is not int or how <= 0:
            return None
        how = -(-n // how) if n else 1
    if type(how) is int:
        if how <= 0 or n == 0:
            return None
        sizes = [min(how, n - i) for i in range(0, n, how)]
    else:
        sizes = list(how)
        if sum(sizes) != n or not all(type(s) is int for s in sizes):
            return None
    out, at = [], 0
    for s in sizes:
        out.append(_row(rt, x, root, at, s, 1))
        at += s
    return tuple(out)
