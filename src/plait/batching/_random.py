"""Random draws inside of a batch: each example its own, or all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._dispatch import call
from plait.batching._lazy import BatchError, Lazy
from plait.batching._meta import meta_of
from plait.batching._names import TRAINS, function_of
from plait.batching._shared import has_lazy, unwrap
from plait.batching._site import refuse, site

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


def random_call(rt: LaneRuntime, name: str, func: Any, args: Any, kwargs: Any) -> Any:
    if rt.randomness == "error":
        raise BatchError(
            f"`{name}` draws random numbers ({site()}, example {rt.example}): pass randomness='different' to draw for each "  # noqa: E501
            "example (another stream than the loop's), 'same' to give all examples the same draw, or .eval() the model"
        )
    rt.random_calls[rt.lane] = k = rt.random_calls.get(rt.lane, -1) + 1
    f = func if func is not None else function_of(name)
    with torch.random.fork_rng(devices=[], enabled=rt.randomness == "same"):
        if rt.randomness == "same":
            torch.manual_seed(rt.seed + k)
        return _draw(rt, name, f, args, kwargs)


def _draw(rt: LaneRuntime, name: str, f: Any, args: Any, kwargs: Any) -> Any:
    if (
        name
        in (
            "dropout",
            "alpha_dropout_",
            "dropout1d",
            "dropout2d",
            "dropout3d",
            "feature_dropout",
            "native_dropout",
        )
        and type(args[0]) is Lazy
        and TRAINS.get(name)
    ):
        x, p = args[0], args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        with private.DisableTorchFunction():
            mask = f(torch.ones(x.meta.shape, dtype=x.meta.dtype, device=x.meta.device), p, True)
        mask_lazy = _as_rows(rt, mask)
        if kwargs.get("inplace"):
            return call("mul_", (x, mask_lazy), {})
        return rt.emit("mul", (x, mask_lazy), {})
    if name.endswith("_") and type(args[0]) is Lazy:
        x = args[0]
        with private.DisableTorchFunction():
            drawn = f(
                torch.empty(x.meta.shape, dtype=x.meta.dtype, device=x.meta.device),
                *rt.reals(args[1:]),
                **rt.reals(kwargs),
            )
        return call("copy_", (x, _as_rows(rt, drawn)), {})
    if name.endswith("_"):
        refuse(f"`{name}` writes to {rt.name_of(args[0])}", "draw into a new tensor")
    if name.endswith("_like"):
        x = args[0]
        with private.DisableTorchFunction():
            return _as_rows(rt, f(torch.empty(tuple(x.shape), dtype=x.dtype, device=x.device), *args[1:], **kwargs))
    if has_lazy(args) or has_lazy(kwargs):
        if name in ("gumbel_softmax", "rrelu", "alpha_dropout", "feature_alpha_dropout"):
            return rt.alone(name, f, args, kwargs)
        reals = rt.reals(args), rt.reals(kwargs)  # the draw itself has no derivative
        with private.DisableTorchFunction():
            return _as_rows(rt, f(*reals[0], **reals[1]))
    with private.DisableTorchFunction():
        return _as_rows(rt, f(*unwrap(args), **unwrap(kwargs)))


def _as_rows(rt: LaneRuntime, t: Any) -> Any:
    """A tensor that belongs to this lane alone, as rows."""
    if not isinstance(t, Tensor):
        return t
    with private.DisableTorchFunction():
        meta = meta_of(tuple(t.shape), t.dtype, t.device, False)
        x = Lazy(rt.take(meta.rows), meta, rt.lane, None)
        rt.exec.add_leaf(t.detach(), x.slot, meta)
    return x
