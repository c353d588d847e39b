"""From the arguments of a batched call to the arguments of each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching._current import local
from plait.batching._lazy import BatchError, Lazy
from plait.batching._meta import meta_of
from plait.batching._tree import Tree

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


class Shared:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Each:
    """One value per example; `flat` says that vectors among them have different lengths."""

    __slots__ = ("flat", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        lengths = {v.shape[0] for v in values if isinstance(v, Tensor) and v.dim() == 1}
        self.flat = len(lengths) > 1


class Spread:
    """Arguments, ready to be handed out."""

    def __init__(self, args: list[Any], kwargs: dict[str, Any], count: int, device: torch.device) -> None:
        self.args = args
        self.kwargs = kwargs
        self.count = count
        self.device = device

    def calls(self, rt: LaneRuntime) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The arguments of each example, its tensors made lazy."""
        columns = [self._column(rt, a) for a in self.args]
        words = {k: self._column(rt, a) for k, a in self.kwargs.items()}
        return [
            (tuple([c[i] for c in columns]), {k: c[i] for k, c in words.items()} if words else {})
            for i in range(self.count)
        ]

    def _column(self, rt: LaneRuntime, a: Any) -> list[Any]:
        """One argument of all examples."""
        if type(a) is Each and all(isinstance(v, Tensor) for v in a.values):
            return _inputs(rt, a.values, a.flat)

        def of(i: int) -> Any:
            def lazy(t: Tensor, flat: bool) -> Any:
                x = _inputs(rt, (t,), flat)[0]
                x.lane = rt.lane_of(i)
                return x

            return lazy

        return [_pick(a, i, of(i), rt.core.has_tensor) for i in range(self.count)]

    def plain(self, i: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def same(t: Tensor, flat: bool) -> Any:
            return t

        return tuple(_pick(a, i, same) for a in self.args), {k: _pick(a, i, same) for k, a in self.kwargs.items()}


def _inputs(rt: LaneRuntime, tensors: Sequence[Tensor], flat: bool) -> list[Any]:
    """Values that stand for these tensors, each of an example of its own."""
    grad = torch.is_grad_enabled()
    metas = [
        meta_of(t.shape, t.dtype, t.device, grad and t.requires_grad, 1 if flat and t.dim() == 1 else None)
        for t in tensors
    ]
    values: list[Any] = rt.core.inputs(metas)
    rt.exec.add_leaves(tensors, values, metas)
    return values


def _pick(a: Any, i: int, make: Any, has: Any = None) -> Any:
    if type(a) is Shared:
        return a.value
    if type(a) is Each:
        v = a.values[i]
        return v if not isinstance(v, Tensor) and has is not None and not has(v) else _lazies(v, make, a.flat)
    if isinstance(a, tuple) and hasattr(a, "_fields"):
        return type(a)(*(_pick(x, i, make, has) for x in a))
    if isinstance(a, tuple):
        return tuple(_pick(x, i, make, has) for x in a)
    return {k: _pick(x, i, make, has) for k, x in a.items()}


def _lazies(v: Any, make: Any, flat: bool) -> Any:
    """One example with its tensors made lazy; containers without tensors stay the same objects."""
    t = type(v)
    if t is int or t is float or t is str or t is bool or v is None:
        return v
    if t is Lazy:
        return v
    if isinstance(v, Tensor):
        return make(v, flat)
    if t is list or t is tuple:
        new = [_lazies(x, make, flat) for x in v]
        if all(a is b for a, b in zip(new, v)):
            return v
        return new if t is list else tuple(new)
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return t(*(_lazies(x, make, flat) for x in v))
    if t is dict:
        new_d = {k: _lazies(x, make, flat) for k, x in v.items()}
        return v if all(new_d[k] is v[k] for k in v) else new_d
    return v


def spread(args: tuple[Any, ...], kwargs: dict[str, Any], in_dims: Any) -> Spread:
    dims = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
    if len(dims) != len(args):
        raise BatchError(
            f"in_dims has {len(dims)} entries, but the function was called with {len(args)} positional arguments"
        )
    counts: list[tuple[int, str]] = []
    devices: list[torch.device] = []
    new = [_walk(a, d, f"argument {i}", counts, devices) for i, (a, d) in enumerate(zip(args, dims))]
    default = in_dims if isinstance(in_dims, int) else 0
    words = {k: _walk(a, default, f"argument {k!r}", counts, devices) for k, a in kwargs.items()}
    if not counts:
        raise BatchError(
            "plait.batch found no examples among the arguments; pass lists of examples or tensors, and not "
            "in_dims=None for all of them"
        )
    n, first = counts[0]
    for m, where in counts[1:]:
        if m != n:
            tuples = "; a tuple is structure, not a list of examples" if "[" in where else ""
            raise BatchError(
                f"{first} has {n} examples, but {where} has {m}; all must have the same number, or None in in_dims "
                f"to be shared{tuples}"
            )
    return Spread(new, words, n, devices[0] if devices else torch.device("cpu"))


def _walk(a: Any, dim: Any, where: str, counts: list[tuple[int, str]], devices: list[torch.device]) -> Any:
    if dim is None:
        return Shared(a)
    if isinstance(a, Tensor):
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise BatchError(f"in_dims for {where} is {dim!r}, but it is one tensor; give a number or None")
        if type(a) is not Lazy and a.is_nested:  # type: ignore[comparison-overlap]
            parts = list(a.unbind())
        else:
            if not -a.dim() <= dim < a.dim():
                raise BatchError(f"in_dims for {where} is {dim}, but the tensor has {a.dim()} dimensions")
            parts = list(a.unbind(dim))
        counts.append((len(parts), where))
        devices.append(a.device)
        return Each(parts)
    if isinstance(a, list):
        if isinstance(dim, list) and len(dim) == len(a):
            raise BatchError(
                f"in_dims for {where} is a list, but a list is always a list of examples; use a tuple for structure"
            )
        counts.append((len(a), where))
        t = next((v for v in a if isinstance(v, Tensor)), None)
        if t is not None:
            devices.append(t.device)
        return Each(a)
    if isinstance(a, tuple):
        dims = dim if isinstance(dim, tuple) else (dim,) * len(a)
        if len(dims) != len(a):
            raise BatchError(f"in_dims for {where} has {len(dims)} entries for a tuple of {len(a)}")
        parts = [_walk(x, d, f"{where}[{i}]", counts, devices) for i, (x, d) in enumerate(zip(a, dims))]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, dict):
        dims_d = dim if isinstance(dim, dict) else dict.fromkeys(a, dim)
        return {k: _walk(x, dims_d.get(k, 0), f"{where}[{k!r}]", counts, devices) for k, x in a.items()}
    raise BatchError(
        f"{where} is of type {type(a).__name__}: pass a list of examples or a tensor, or None in in_dims to share it"
    )


def regroup(out_dims: Any, tree: Tree, n: int) -> list[Any]:
    """One out_dim for each result."""
    if isinstance(out_dims, int):
        return [out_dims] * n
    dims: list[Any] = []

    def walk(d: Any, t: Tree) -> None:
        if t.kind is None:
            if not isinstance(d, int):
                raise BatchError(f"out_dims has {d!r} where one number is needed")
            dims.append(d)
            return
        if isinstance(d, int):
            ds: Any = [d] * len(t.parts)
        else:
            ds = list(d.values()) if isinstance(d, dict) else list(d)
            if len(ds) != len(t.parts):
                raise BatchError(f"out_dims has {len(ds)} entries, but the function returned {len(t.parts)} results")
        for x, p in zip(ds, t.parts):
            walk(x, p)

    walk(
        out_dims if tree.kind is not None else (out_dims[0] if isinstance(out_dims, (tuple, list)) else out_dims),
        tree,
    )
    return dims


__all__ = ["Spread", "local", "regroup", "spread"]
