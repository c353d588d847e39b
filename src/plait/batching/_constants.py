"""Calls that no example changes: each runs once, and every lane gets the same constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._build import SMALL
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._meta import meta_of
from plait.batching._names import FACTORIES
from plait.batching._signature import scalar_key
from plait.batching._trace import shares_memory

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


def shared_call(rt: LaneRuntime, name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """Runs once; every lane that makes the same call gets the same constant."""
    ids: list[Any] = []
    key = (
        func if type(name) is not str or not name else name,
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        _call_key(args, ids),
        _call_key(kwargs, ids),
    )
    hit = rt.calls.get(key)
    if hit is None:
        with private.DisableTorchFunction():
            out = func(*args, **kwargs)
        if not _tensors_in(out):
            return out
        rt.keep.append(ids)
        hit = rt.calls[key] = (out, args)
    out, args = hit
    if isinstance(out, Tensor):
        made = const(rt, out, args)
        if not ids and name in FACTORIES and type(made) is Lazy and made.extra is None:
            handle = Lazy(made.slot, made.meta, rt.lane, None)  # its own: a write may rebind the one handed out
            rt.core.remember(name, torch.get_default_dtype(), None, args, kwargs, (), handle)
        return made
    return (
        type(out)(const(rt, o, args) if isinstance(o, Tensor) else o for o in out)
        if type(out) in (tuple, list)
        else (tuple(const(rt, o, args) if isinstance(o, Tensor) else o for o in out))
    )


def const(rt: LaneRuntime, t: Tensor, args: Any) -> Any:
    if isinstance(args, (tuple, list)) and any(a is t for a in args):
        return t  # x.contiguous() and its like gave the tensor itself
    source = None
    if args and shares_memory(t, args):
        source = rt.name_of(t)
        rt.viewed.add(t.untyped_storage().data_ptr())
    elif not args or not any(isinstance(a, Tensor) for a in args):  # noqa: SIM102
        if t.numel() <= SMALL and not t.requires_grad and t.device == rt.device:
            return rt.promote(t)  # zeros(n) and its like: a row, which may be written
    return Lazy(-1, meta_of(tuple(t.shape), t.dtype, t.device, t.requires_grad), rt.lane, Const(t, source))


def _call_key(a: Any, ids: list[Any]) -> Any:
    if isinstance(a, Tensor):
        ids.append(a)
        return ("t", id(a), a._version)
    if type(a) in (tuple, list):
        return (type(a), tuple([_call_key(x, ids) for x in a]))
    if type(a) is dict:
        return tuple([(k, _call_key(v, ids)) for k, v in a.items()])
    return scalar_key(a)


def _tensors_in(out: Any) -> bool:
    return isinstance(out, Tensor) or (isinstance(out, (tuple, list)) and any(isinstance(o, Tensor) for o in out))
