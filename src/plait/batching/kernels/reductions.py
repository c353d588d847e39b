"""Reductions, softmaxes and other ops along named dimensions; over a ragged first dimension by segment."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule, Rows
from plait.batching._tree import sequence
from plait.batching.kernels._table import freeze, rule, torch_callable

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Shape = tuple[int, ...]


def _dims(dim: Any, rank: int) -> list[int]:
    ds = [dim] if isinstance(dim, int) else list(dim)
    return [d % rank if rank else 0 for d in ds]


def segment_sum(rows: Rows, x: Tensor) -> Tensor:
    k = rows.equal
    if k == 1:
        return x
    if k > 0:
        return x.view(rows.n, k, *x.shape[1:]).sum(1)
    return x.new_zeros((rows.n, *x.shape[1:])).index_add(0, rows.owner, x)


def segment_mean(rows: Rows, x: Tensor) -> Tensor:
    k = rows.equal
    if k == 1:
        return x
    if k > 0:
        return x.view(rows.n, k, *x.shape[1:]).mean(1)
    return segment_sum(rows, x) / rows.sizes.to(x.dtype).view(-1, *(1,) * (x.dim() - 1))


def _segment_extreme(largest: bool) -> Any:
    def fn(rows: Rows, x: Tensor) -> Tensor:
        k = rows.equal
        if k > 0:
            v = x.view(rows.n, k, *x.shape[1:])
            return v.amax(1) if largest else v.amin(1)
        parts = x.split(rows.lengths or [])  # type: ignore[no-untyped-call]
        return torch.stack([p.amax(0) if largest else p.amin(0) for p in parts])

    return fn


SEGMENT: dict[str, Any] = {
    "sum": segment_sum,
    "mean": segment_mean,
    "amax": _segment_extreme(True),
    "amin": _segment_extreme(False),
}


def over_segments(t: Tracer, name: str, x: Lazy, dtype: torch.dtype) -> Lazy:
    shape = tuple(t.val(x).shape[1:])
    return t.op("seg" + name, SEGMENT[name], [x], [(shape, dtype)], rows=True)[0]


def _parse(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Lazy, Any, bool, dict[str, Any]]:
    rest = dict(kwargs)
    x = args[0]
    dim = args[1] if len(args) > 1 else rest.pop("dim", rest.pop("axis", None))
    keep = args[2] if len(args) > 2 else rest.pop("keepdim", False)
    if len(args) > 3 or isinstance(dim, (bool, str, Tensor)) or not isinstance(x, Lazy):
        raise NoRule
    if isinstance(dim, (tuple, list)) and not dim:
        dim = None
    return x, dim, bool(keep), rest


@rule(
    "sum",
    "mean",
    "amax",
    "amin",
    "logsumexp",
    "prod",
    "any",
    "all",
    "var",
    "std",
    "nansum",
    "count_nonzero",
    "argmax",
    "argmin",
    "norm_simple",
)
def reduce(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    func = torch_callable(name)
    if name in ("var", "std") and (len(args) > 2 or (len(args) > 1 and isinstance(args[1], bool))):
        raise NoRule
    x, dim, keep, rest = _parse(args, kwargs)
    shape, dtype = t.infer(name, func, args, kwargs)[0]
    v = t.val(x)
    rank = len(v.shape)
    if rank == 0 or prod(v.inner) == 0:
        raise NoRule
    if not v.ragged:
        if dim is None:
            if name in ("argmax", "argmin", "var", "std", "prod", "any", "all", "count_nonzero"):
                flat = t.reshape(x, (prod(v.shape),))
                return _emit(
                    t,
                    name,
                    func,
                    flat,
                    [1],
                    False,
                    rest,
                    (shape, dtype),
                    single=name in ("prod", "argmax", "argmin"),
                )
            ds = list(range(1, rank + 1))
        else:
            ds = [d + 1 for d in _dims(dim, rank)]
        return _emit(t, name, func, x, ds, keep, rest, (shape, dtype), single=isinstance(dim, int))
    ds = list(range(rank)) if dim is None else _dims(dim, rank)
    if 0 not in ds:
        return _emit(t, name, func, x, ds, keep, rest, (shape, dtype), single=isinstance(dim, int), ragged=True)
    if name not in SEGMENT or rest:
        raise NoRule
    inner = [d for d in ds if d]
    kept = (
        tuple(1 if d in inner else s for d, s in enumerate(v.shape))
        if keep
        else tuple(s for d, s in enumerate(v.shape) if d not in inner)
    )
    y = _emit(t, name, func, x, inner, keep, {}, (kept, dtype), ragged=True) if inner else x
    z = over_segments(t, name, y, dtype)
    return t.reshape(z, shape) if keep else z


def _emit(
    t: Tracer,
    name: str,
    func: Any,
    x: Lazy,
    dims: list[int],
    keep: bool,
    rest: dict[str, Any],
    out: tuple[Shape, torch.dtype],
    single: bool = False,
    ragged: bool = False,
) -> Lazy:
    d: Any = dims[0] if (single or name in ("argmax", "argmin", "prod")) else tuple(dims)
    return t.op(
        name,
        lambda a: func(a, dim=d, keepdim=keep, **rest),
        [x],
        [out],
        (tuple(dims), keep, freeze(rest)),
        ragged=ragged,
    )[0]


@rule("max", "min")
def extreme(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and isinstance(args[1], Tensor):
        from plait.batching.kernels._table import lower

        return lower(t, "maximum" if name == "max" else "minimum", args, kwargs)
    if len(args) == 1 and not kwargs:
        return reduce(t, "amax" if name == "max" else "amin", args, kwargs)
    return along(t, name, args, kwargs)


AXIS_DEFAULT = {"sort": -1, "argsort": -1, "flip": None, "topk": -1, "median": None, "softmax": None}


@rule(
    "softmax",
    "log_softmax",
    "softmin",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "sort",
    "argsort",
    "topk",
    "flip",
    "roll",
    "median",
    "mode",
    "kthvalue",
    "cummax",
    "cummin",
    "renorm_simple",
    "diff_simple",
)
def along(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ops that keep the dimensions they run along (or return values and indices)."""
    func = torch_callable(name)
    rest = {k: v for k, v in kwargs.items() if k != "_stacklevel"}
    x = args[0]
    if not isinstance(x, Lazy):
        raise NoRule
    if name == "flip" and len(args) > 2:
        args = (x, tuple(args[1:]))
    pos = {"topk": 2, "kthvalue": 2, "roll": 2}.get(name, 1)
    more = list(args[1:])
    if "dim" in rest or "dims" in rest:
        key = "dim" if "dim" in rest else "dims"
        dim = rest.pop(key)
    elif len(args) > pos:
        dim = args[pos]
        del more[pos - 1]
    else:
        dim = AXIS_DEFAULT.get(name)
    if name in ("sort", "argsort") and isinstance(dim, bool):
        raise NoRule
    if len(args) > pos + 1 and name in (
        "softmax",
        "log_softmax",
        "softmin",
    ):  # the old `_stacklevel` position
        more = []
        if len(args) > pos + 2 and args[pos + 2] is not None:
            rest["dtype"] = args[pos + 2]
        elif len(args) == pos + 2 and isinstance(args[pos + 1], torch.dtype):
            rest["dtype"] = args[pos + 1]
    if dim is None or any(isinstance(m, Tensor) for m in more):
        raise NoRule
    rank = len(x.meta.shape)
    if rank == 0:
        raise NoRule
    outs, kind = t.results(name, func, args, {k: v for k, v in kwargs.items() if k != "_stacklevel"})
    ragged = t.is_ragged(x)
    if name == "flip" and isinstance(dim, int):
        dim = (dim,)
    many = not isinstance(dim, int)
    ds = _dims(dim, rank)
    if ragged and 0 in ds:
        raise NoRule
    shift = 0 if ragged else 1
    phys: Any = tuple(d + shift for d in ds) if many else ds[0] + shift
    word = "dims" if name in ("flip", "roll") else "dim"
    call_args = tuple(more)
    res = t.op(
        name,
        lambda a: func(a, *call_args, **{word: phys}, **rest),
        [x],
        outs,
        (phys, freeze(call_args), freeze(rest)),
        ragged=ragged,
    )
    return res[0] if kind is None else sequence(kind, res)


@rule("norm")
def norm(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = args[0]
    p = args[1] if len(args) > 1 else kwargs.get("p", "fro")
    dim = args[2] if len(args) > 2 else kwargs.get("dim")
    keep = args[3] if len(args) > 3 else kwargs.get("keepdim", False)
    if p not in ("fro", 2, 2.0, None) or not isinstance(x, Lazy) or kwargs.get("dtype") is not None or t.is_ragged(x):
        raise NoRule
    rank = len(x.meta.shape)
    if rank == 0:
        raise NoRule
    shape, dtype = t.infer(name, torch.norm, args, kwargs)[0]
    ds = tuple(range(1, rank + 1)) if dim is None else tuple(d + 1 for d in _dims(dim, rank))
    return t.op(name, lambda a: torch.linalg.vector_norm(a, 2, ds, keep), [x], [(shape, dtype)], (ds, keep))[0]
