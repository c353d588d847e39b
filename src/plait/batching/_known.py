"""Traces of calls that depend on nothing but shapes and settings, kept from one batch to the next.

A call of one of PyTorch's own functions or modules gives the same program whenever its shapes, its other arguments and
the module's settings are the same, whatever the weights are. What a person wrote is traced in every batch: it may read
anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from plait import _torch as private
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._meta import Meta, meta_of
from plait.batching._program import Program
from plait.batching._signature import scalar_key

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


@dataclass(slots=True)
class Traced:
    """A call as a program, and what its results are."""

    program: Program
    shared: list[Tensor]
    out: Any  # the results as the call returned them, with symbols for values
    metas: list[Meta]
    ragged: list[bool]
    length: int | None  # rows of an input that count as ragged, if they do


@dataclass(slots=True)
class Known:
    """A trace without its weights, and which of a call's weights they were."""

    traced: Traced
    which: list[int]


_KNOWN: dict[Any, Known] = {}


@dataclass(slots=True)
class Described:
    """A call by what its trace depends on, and the tensors that it shares with other examples."""

    key: Any
    weights: list[Tensor]

    def find(self) -> Traced | None:
        """The trace of such a call, with this call's weights."""
        known = _KNOWN.get(self.key)
        if known is None:
            return None
        t = known.traced
        return Traced(t.program, [self.weights[k] for k in known.which], t.out, t.metas, t.ragged, t.length)

    def keep(self, t: Traced) -> None:
        """Keeps a trace, unless it holds a tensor that is not among the call's."""
        places = {id(w): k for k, w in reversed(list(enumerate(self.weights)))}
        if any(id(w) not in places for w in t.shared) or _has_const(t.out):
            return
        if len(_KNOWN) > 4096:
            _KNOWN.clear()
        bare = Traced(t.program, [], t.out, t.metas, t.ragged, t.length)
        _KNOWN[self.key] = Known(bare, [places[id(w)] for w in t.shared])


def describe(rt: LaneRuntime, what: Any, args: Any, kwargs: Any, shared: frozenset[int]) -> Described | None:
    """`what`: the name of a function of PyTorch, or a module of torch.nn; None if that does not settle it."""
    weights: list[Tensor] = []
    with private.DisableTorchFunction():
        settings = _settings(what, weights) if isinstance(what, nn.Module) else what
        if settings is None or any(type(w) is Lazy for w in weights):  # type: ignore[comparison-overlap]  # `functional_call` with weights of an example
            return None
        key = (
            settings,
            tuple([_argument(rt, a, i in shared, weights) for i, a in enumerate(args)]),
            tuple([(name, _argument(rt, a, True, weights)) for name, a in kwargs.items()]),
            tuple([(tuple(w.shape), w.dtype, w.requires_grad, w.device) for w in weights]),
            torch.is_grad_enabled(),
            private.autocast_state(),
            torch.get_default_dtype(),
            rt.device,
        )
    try:
        hash(key)
    except TypeError:
        return None
    return Described(key, weights)


def _argument(rt: LaneRuntime, a: Any, weight: bool, weights: list[Tensor]) -> Any:
    t = type(a)
    if t is Lazy:
        return _argument(rt, a.extra.tensor, weight, weights) if type(a.extra) is Const else a.meta
    if t is tuple or t is list:
        return (t, tuple([_argument(rt, x, weight, weights) for x in a]))
    if isinstance(a, Tensor):
        if rt.is_row(a, weight):
            return ("row", meta_of(tuple(a.shape), a.dtype, a.device, a.requires_grad))
        weights.append(a)
        return ("weight", len(weights) - 1)
    return scalar_key(a)


_PLAIN = (int, float, bool, str, type(None))


def _settings(m: nn.Module, weights: list[Tensor]) -> Any:
    """A module's class and public attributes, if all are numbers, words and tuples of them, and of its children too."""
    found: list[Any] = [type(m), type(m).forward]
    for name, value in m.__dict__.items():
        if name[0] == "_":
            continue
        if not all(type(v) in _PLAIN for v in (value if type(value) is tuple else (value,))):
            return None
        found.append((name, scalar_key(value)))
    for tensors in (m._parameters, m._buffers):
        own: Iterable[tuple[str, Tensor | None]] = tensors.items()
        for name, w in own:
            found.append((name, w is None))
            if w is not None:
                weights.append(w)
    for name, child in m._modules.items():
        inner = _settings(child, weights) if child is not None else None
        if inner is None:
            return None
        found.append((name, inner))
    return tuple(found)


def _has_const(out: Any) -> bool:
    if type(out) is Lazy:
        return type(out.extra) is Const
    if isinstance(out, (tuple, list)):
        return any(_has_const(x) for x in out)
    return isinstance(out, dict) and any(_has_const(x) for x in out.values())
