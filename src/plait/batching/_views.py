"""Tensor views and indexing of lazy tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plait.batching._current import Runtime
from plait.batching._lazy import Lazy
from plait.batching._marks import INPUT, Alias, Const, Written
from plait.batching._shared import Args, Kwargs, has_lazy
from plait.batching._writes import fresh, row_chain


def view(rt: Runtime, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy or type(x.extra) is Const:
        return rt.emit(name, args, kwargs)
    if x.lane != rt.lane:
        rt.foreign(x)
    if x.extra is not None and x.extra is not INPUT:
        fresh(rt, x)
    if any(has_lazy(a) for a in args[1:]) and name not in ("view_as", "reshape_as", "expand_as"):
        if name == "__getitem__":
            return _index(rt, x, args[1])
        return rt.emit(name, args, kwargs)
    if name == "__getitem__" and is_advanced(args[1]):
        return _index(rt, x, args[1])
    out = rt.rows_view(name, x, args[1:], kwargs) if not rt.tracing else None
    if out is not None:
        return out
    if name in ("view_as", "reshape_as", "expand_as"):
        name, args = name[:-3], (x, tuple(args[1].shape))
    if name in ("split", "chunk", "unbind", "tensor_split", "split_with_sizes", "hsplit", "vsplit", "dsplit"):
        return _parts(rt, name, x, args, kwargs)
    if name == "detach" and not rt.tracing:
        out = Lazy(x.slot, x.meta.detached(), x.lane, None)
    else:
        out = rt.emit(name, args, kwargs)
    if type(out) is Lazy and out.extra is None and out is not x:
        e = x.extra
        step = (name, tuple(args[1:]), tuple(kwargs.items()))
        if type(e) is Alias:
            out.extra = Alias(e.root, (*e.chain, step), e.seen, torch.is_grad_enabled())
        elif type(e) is Lazy:
            out.extra = Alias(e, (*row_chain(x, e), step), 0, torch.is_grad_enabled())
        else:
            out.extra = Alias(x, (step,), e.version if type(e) is Written else 0, torch.is_grad_enabled())
    return out


def _parts(rt: Runtime, name: str, x: Lazy, args: Args, kwargs: Kwargs) -> Any:
    """Several tensor views at once."""
    outs = rt.emit(name, args, kwargs)
    e = x.extra
    root, chain, seen = (
        (e.root, e.chain, e.seen)
        if type(e) is Alias
        else (e, row_chain(x, e), 0)
        if type(e) is Lazy
        else (x, (), e.version if type(e) is Written else 0)
    )
    rank = len(x.meta.shape)
    if name == "unbind":
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % rank
    else:
        given: Any = args[2] if len(args) > 2 else kwargs.get("dim", 0)
        dim = int({"hsplit": 1 if rank > 1 else 0, "vsplit": 0, "dsplit": 2}.get(name, given)) % rank
    at = 0
    grad = torch.is_grad_enabled()
    for k, out in enumerate(outs):
        if name == "unbind":
            step: Any = ("select", (dim, k), ())
        else:
            n = out.meta.shape[dim]
            step = ("narrow", (dim, at, n), ())
            at += n
        if type(out) is Lazy:
            out.extra = Alias(root, (*chain, step), seen, grad)
    return outs


def is_advanced(i: Any) -> bool:
    if isinstance(i, tuple):
        return any(is_advanced(k) for k in i)
    return isinstance(i, (list, Tensor)) or type(i).__name__ == "ndarray"


def spelled_out(index: Args, rank: int) -> Args:
    """The same index without `...` and without the full slices at its end, so that rows are seen to be rows."""
    at = [k for k, p in enumerate(index) if p is Ellipsis]
    missing = rank - sum(p is not None and p is not Ellipsis for p in index)
    if len(at) > 1 or missing < 0 or any(isinstance(p, bool) for p in index):
        return index
    for k in at:
        index = (*index[:k], *(slice(None),) * missing, *index[k + 1 :])
    while len(index) > 1 and type(index[-1]) is slice and index[-1] == slice(None):
        index = index[:-1]
    return index


def is_mask(i: Any) -> bool:
    if isinstance(i, tuple):
        return any(is_mask(k) for k in i)
    if isinstance(i, Tensor):
        return i.dtype in (torch.bool, torch.uint8)
    return isinstance(i, list) and any(isinstance(k, bool) for k in i)


def _index(rt: Runtime, x: Lazy, index: Any) -> Any:
    if isinstance(index, Tensor) and index.dim() == 0 and not is_mask(index) and has_lazy(index):
        # x[i] with a 0-d integer tensor: PyTorch reads it, and gives a tensor view
        return view(rt, "select", (x, 0, int(index)), {})
    if isinstance(index, slice) or (
        isinstance(index, tuple) and any(isinstance(k, slice) and has_lazy(k) for k in index)
    ):
        parts = index if isinstance(index, tuple) else (index,)
        known = tuple(
            slice(*(None if v is None else int(v) for v in (k.start, k.stop, k.step))) if isinstance(k, slice) else k
            for k in parts
        )
        return view(rt, "__getitem__", (x, known), {})
    if is_mask(index):
        return rt.alone("__getitem__", Tensor.__getitem__, (x, index), {})
    return rt.emit("__getitem__", (x, index), {})
