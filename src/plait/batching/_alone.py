"""Calls whose result is not known before they ran: they run for one example alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._current import SIZE_DEPENDS
from plait.batching._lazy import Lazy
from plait.batching._marks import Const

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


def alone(rt: LaneRuntime, name: str, func: Any, args: Any, kwargs: Any, why: str = SIZE_DEPENDS) -> Any:
    """A call whose result is not known before it ran: runs for this example only, and is reported."""
    lazies: list[Lazy] = []
    spec = _hole(args, lazies), _hole(kwargs, lazies)
    reals = [rt.tensor(x) for x in lazies]
    rt.report.ran_alone(name, why)
    grad = torch.is_grad_enabled()
    with private.DisableTorchFunction():
        for r, x in zip(reals, lazies):
            if x.meta.tracks and grad:
                r.requires_grad_(True)

        def run(xs: list[Tensor]) -> Any:
            return func(*_plug(spec[0], xs), **_plug(spec[1], xs))

        def again(xs: list[Tensor]) -> list[Any]:
            out = run(xs)
            return [out] if isinstance(out, Tensor) else list(out)

        out = run(reals)
    many = not isinstance(out, Tensor)
    res = list(out) if many else [out]
    outs = rt.exec.add_alone(res, reals, lazies, again)
    return tuple(outs) if many else outs[0]


class _Hole:
    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k


def _hole(a: Any, found: list[Lazy]) -> Any:
    t = type(a)
    if t is Lazy:
        if type(a.extra) is Const:
            return a.extra.tensor
        found.append(a)
        return _Hole(len(found) - 1)
    if t is tuple or t is list:
        return t(_hole(x, found) for x in a)
    if t is dict:
        return {k: _hole(v, found) for k, v in a.items()}
    return a


def _plug(a: Any, xs: list[Tensor]) -> Any:
    t = type(a)
    if t is _Hole:
        return xs[a.k]
    if t is tuple or t is list:
        return t(_plug(x, xs) for x in a)
    if t is dict:
        return {k: _plug(v, xs) for k, v in a.items()}
    return a
