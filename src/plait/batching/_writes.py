"""Writes in place: the value gets a new name, and every tensor view of it looks again."""

from __future__ import annotations

from typing import Any

import torch

from plait.batching._core_choice import Test
from plait.batching._current import Runtime
from plait.batching._lazy import Lazy
from plait.batching._marks import INPUT, Alias, Const, Written
from plait.batching._names import MAYBE_COPY
from plait.batching._site import refuse


def write(rt: Runtime, x: Lazy, value: Any) -> None:
    """`x[...] = value`, seen by x, by what x is a tensor view of, and by every other view of that."""
    fresh(rt, x)
    if x.lane != rt.lane:
        rt.foreign(x)
    if x.meta.tracks and torch.is_grad_enabled() and x.extra is INPUT:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    e = x.extra
    root = e.root if type(e) is Alias else e if type(e) is Lazy else x
    if root.extra is INPUT:
        refuse("the function writes in place to an example that it was given", "clone it first: x = x.clone()")
    if type(root.extra) is Const and root.extra.source is not None:
        refuse(
            f"the function writes in place to {root.extra.source}",
            "every example would change it for the others; clone it first",
        )
    if type(root.extra) is Const:
        rt.own(root)
    new = rt.emit("assign", (x, value), {})
    if root is not x:
        chain = e.chain if type(e) is Alias else row_chain(x, root)
        if any(c[0] in MAYBE_COPY for c in chain):
            refuse(
                "a write in place through reshape, flatten or contiguous, which may or may not copy",
                "write to the original tensor, or use view()",
            )
        if any(c[0] == "detach" for c in chain):
            refuse("a write in place through detach() or .data", "write x.copy_(value) under torch.no_grad()")
        seen = root.extra.version + 1 if type(root.extra) is Written else 1
        _rebind(root, rt.emit("view_scatter", (root, new, chain), {}))
        x.extra = Alias(root, chain, seen)
        x.slot, x.meta = new.slot, new.meta
    else:
        _rebind(x, new)


def _rebind(root: Lazy, new: Lazy) -> None:
    e = root.extra
    if type(e) is Written:
        root.extra = Written(e.slot, e.version + 1)
    else:
        root.extra = Written(root.slot, 1)
    root.slot, root.meta = new.slot, new.meta


def row_chain(x: Lazy, root: Lazy) -> tuple[Any, ...]:
    first = root.extra.slot if type(root.extra) is Written else root.slot
    off = x.slot - first
    if x.meta.lead and len(x.meta.shape) == len(root.meta.shape):
        return (("narrow", (0, off, x.meta.rows), ()),)
    return (("select", (0, off), ()),)


def fresh(rt: Runtime, x: Lazy) -> None:
    """Looks again through a tensor view whose value was written since."""
    e = x.extra
    if type(e) is Test:
        t = rt.emit(e.name, (e.value, e.other), {})
        x.slot, x.meta, x.extra = t.slot, t.meta, None
        return
    if type(e) is Lazy:
        if type(e.extra) is not Written:
            return
        e = x.extra = Alias(e, row_chain(x, e), 0)
    if type(e) is Alias:
        w = e.root.extra
        if type(w) is Written and w.version != e.seen:
            if any(c[0] in MAYBE_COPY for c in e.chain):
                refuse(
                    "a value was written in place after reshape, flatten or contiguous made another name for it, which "
                    "may or may not be a copy",
                    "use view() or clone()",
                )
            y = e.root
            before = torch.is_grad_enabled()
            torch._C._set_grad_enabled(e.grad)  # a view keeps the mode in which it was taken
            try:
                for n, a, k in e.chain:
                    y = rt.emit(n, (y, *a), dict(k))
            finally:
                torch._C._set_grad_enabled(before)
            x.slot, x.meta = y.slot, y.meta if e.grad else y.meta.detached()
            e.seen = w.version
