"""Calls whose result is not known before they ran: they run for one example alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._current import SIZE_DEPENDS
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._shared import unchanged, versions_of
from plait.batching._tree import is_tuple, sequence

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


def alone(rt: LaneRuntime, name: str, func: Any, args: Any, kwargs: Any, why: str = SIZE_DEPENDS) -> Any:
    """A call whose result is not known before it ran: runs for this example only, and is reported."""
    holes = _Holes()
    spec = holes.cut(args), holes.cut(kwargs)
    reals = [rt.tensor(x) for x in holes.values]
    rt.report.ran_alone(name, why)
    grad = torch.is_grad_enabled()
    with private.DisableTorchFunction():
        for r, x in zip(reals, holes.values):
            if x.meta.tracks and grad:
                r.requires_grad_(True)
        weights = [w.detach().requires_grad_(grad) for w in holes.weights]

        def again(xs: list[Tensor], ws: list[Tensor]) -> Any:
            filled = [xs, ws]
            return func(*_plug(spec[0], filled), **_plug(spec[1], filled))

        versions = versions_of(reals)
        out = again(reals, weights)
        unchanged(name, reals, versions)
    many = not isinstance(out, Tensor)
    res = list(out) if many else [out]
    outs = rt.exec.add_alone(res, Ran(reals, weights, holes.values, holes.weights, again))
    return sequence(type(out), outs) if many else outs[0]


@dataclass(slots=True)
class Ran:
    """A call that ran alone: the tensors that it was given for values and for shared tensors that want a gradient."""

    reals: list[Tensor]
    weights: list[Tensor]
    values: list[Lazy]
    shared: list[Tensor]
    again: Callable[[list[Tensor], list[Tensor]], Any]


class _Hole:
    """A place in the arguments: of value number `k` (kind 0) or shared tensor number `k` (kind 1)."""

    __slots__ = ("k", "kind")

    def __init__(self, kind: int, k: int) -> None:
        self.kind = kind
        self.k = k


class _Holes:
    def __init__(self) -> None:
        self.values: list[Lazy] = []
        self.weights: list[Tensor] = []

    def cut(self, a: Any) -> Any:
        """The arguments with holes where values and weights are."""
        t = type(a)
        if t is Lazy:
            if type(a.extra) is Const:
                return self.cut(a.extra.tensor)
            self.values.append(a)
            return _Hole(0, len(self.values) - 1)
        if t is list or is_tuple(a):
            return sequence(t, [self.cut(x) for x in a])
        if t is dict:
            return {k: self.cut(v) for k, v in a.items()}
        if isinstance(a, Tensor):
            with private.DisableTorchFunction():
                if a.requires_grad:
                    self.weights.append(a)
                    return _Hole(1, len(self.weights) - 1)
        return a


def _plug(a: Any, filled: list[list[Tensor]]) -> Any:
    t = type(a)
    if t is _Hole:
        return filled[a.kind][a.k]
    if t is list or is_tuple(a):
        return sequence(t, [_plug(x, filled) for x in a])
    if t is dict:
        return {k: _plug(v, filled) for k, v in a.items()}
    return a
