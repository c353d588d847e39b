"""The table of batched forms, and what stands in where it has no row: `torch.vmap`, then one example after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule, Rows
from plait.batching._tree import sequence

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Lowering = Callable[["Tracer", str, tuple[Any, ...], dict[str, Any]], Any]
LOWER: dict[str, Lowering] = {}


def rule(*names: str) -> Callable[[Lowering], Lowering]:
    def add(f: Lowering) -> Lowering:
        for n in names:
            LOWER[n] = f
        return f

    return add


def lower(t: Tracer, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    f = LOWER.get(name) if type(name) is str else None
    if f is None:
        return by_vmap(t, name, args, kwargs)
    try:
        return f(t, name, args, kwargs)
    except NoRule:
        if any_ragged(t, args) or any_ragged(t, tuple(kwargs.values())):
            raise
        return by_vmap(t, name, args, kwargs)


def any_ragged(t: Tracer, a: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return any(any_ragged(t, x) for x in a)
    return t.is_ragged(a)


def split_tensors(a: Any, found: list[Any]) -> Any:
    """Replaces tensors by their position in `found`, so that the rest can be a constant."""
    if isinstance(a, Tensor):
        found.append(a)
        return Slot(len(found) - 1)
    if type(a) in (tuple, list):
        return type(a)(split_tensors(x, found) for x in a)
    if type(a) is dict:
        return {k: split_tensors(v, found) for k, v in a.items()}
    return a


class Slot:
    """A place for the tensor number `k` in otherwise constant arguments."""

    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return type(other) is Slot and other.k == self.k

    def __hash__(self) -> int:
        return hash(("Slot", self.k))

    def __repr__(self) -> str:
        return f"#{self.k}"


def fill(a: Any, tensors: Any) -> Any:
    if type(a) is Slot:
        return tensors[a.k]
    if type(a) in (tuple, list):
        return type(a)(fill(x, tensors) for x in a)
    if type(a) is dict:
        return {k: fill(v, tensors) for k, v in a.items()}
    return a


def freeze(a: Any) -> Any:
    """A hashable form of constant arguments in which 1, 1.0 and True differ, and 0.0 and -0.0."""
    t = type(a)
    if t in (tuple, list):
        return (t, tuple(freeze(x) for x in a))
    if t is dict:
        return tuple((k, freeze(v)) for k, v in a.items())
    if t is slice:
        return ("slice", a.start, a.stop, a.step)
    if t is float or t is complex:
        return (t, repr(a))
    if t is Slot or a is None or t is str:
        return a
    try:
        hash(a)
    except TypeError:
        return (t, id(a))
    return (t, a)


def torch_callable(name: Any) -> Callable[..., Any]:
    from plait.batching._names import function_of

    return function_of(name) if type(name) is str else name


def by_vmap(t: Tracer, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call under `torch.vmap`; if that refuses, one example after another (reported either way)."""
    if any_ragged(t, args) or any_ragged(t, tuple(kwargs.values())):
        raise NoRule
    func = torch_callable(name)
    found: list[Any] = []
    spec = split_tensors((args, kwargs), found)
    try:
        outs, kind = t.results(name, func, args, kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as e:
        raise NoRule from e  # a wrong call, or one that needs numbers: it will be made with them
    dims = tuple(0 if isinstance(x, Lazy) else None for x in found)
    if all(d is None for d in dims):
        raise NoRule

    def one(*xs: Tensor) -> Any:
        a, k = fill(spec, xs)
        return func(*a, **k)

    def alone(res: Any) -> Any:
        """The one tensor of a tuple of one, as an instruction gives it."""
        return res[0] if kind is not None and len(outs) == 1 else res

    state = {"vmap": True}

    def batched(*xs: Tensor) -> Any:
        if state["vmap"]:
            try:
                return alone(torch.vmap(one, in_dims=dims)(*xs))
            except (RuntimeError, NotImplementedError, ValueError):
                state["vmap"] = False
        n = next(len(x) for x, d in zip(xs, dims) if d == 0)
        each = [one(*(x[i] if d == 0 else x for x, d in zip(xs, dims))) for i in range(n)]
        if isinstance(each[0], Tensor):
            return torch.stack(each)
        return alone([torch.stack(c) for c in zip(*each)])

    t.name = name if type(name) is str else getattr(name, "__name__", str(name))
    res = t.op("call", batched, found, outs, (name, freeze(spec)), opaque=True)
    t.name = ""
    return res[0] if kind is None else sequence(kind, res)


def rep(t: Tracer, x: Lazy) -> Lazy:
    """One row per example, repeated for each of its ragged rows."""
    v = t.val(x)

    def fn(rows: Rows, a: Tensor) -> Tensor:
        return a.index_select(0, rows.owner) if rows.total != rows.n or rows.equal != 1 else a

    return t.op("rep", fn, [x], [((t.ragged_len, *v.shape), v.dtype)], ragged=True, rows=True)[0]
