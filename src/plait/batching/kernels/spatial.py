"""Convolution, pooling and normalisation over images of one size: an example's own batch dimension is folded in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule
from plait.batching.kernels._table import freeze, rule, torch_callable

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
_DIMS = {"1d": 1, "2d": 2, "3d": 3}


@rule(
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "lp_pool1d",
    "lp_pool2d",
    "pixel_shuffle",
    "interpolate",
    "pad_simple",
)
def spatial(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    func = getattr(F, name) if hasattr(F, name) else torch_callable(name)
    x = args[0] if args else kwargs.get("input")
    if not isinstance(x, Lazy) or t.is_ragged(x) or not args:
        raise NoRule
    others = [a for a in (*args[1:], *kwargs.values()) if isinstance(a, Tensor)]
    if any(isinstance(a, Lazy) for a in others):
        raise NoRule
    outs = t.infer(name, func, args, kwargs)
    if len(outs) > 1:
        raise NoRule
    shape, dtype = outs[0]
    rank = len(x.meta.shape)
    if name == "interpolate":
        own = rank - 2 + 1
        has_batch = True
    else:
        d = _DIMS.get(name[-2:], 2)
        own = d + 1
        has_batch = rank == d + 2
        if rank not in (d + 1, d + 2):
            raise NoRule
    slots = [i for i, a in enumerate(args) if i and isinstance(a, Tensor)]
    words = [k for k, a in kwargs.items() if isinstance(a, Tensor)]
    consts = tuple(None if isinstance(a, Tensor) else a for a in args[1:])

    def fn(a: Tensor, *ws: Tensor) -> Tensor:
        full = [None, *consts]
        for i, w in zip(slots, ws):
            full[i] = w
        kw = dict(kwargs)
        kw.update(zip(words, ws[len(slots) :]))
        n = a.shape[0]
        b = a.flatten(0, 1) if has_batch else a
        y = func(b, *full[1:], **kw)
        return y.unflatten(0, (n, -1)) if has_batch else y  # type: ignore[no-any-return]

    key = (
        freeze(consts),
        freeze({k: v for k, v in kwargs.items() if k not in words}),
        tuple(slots),
        tuple(words),
        own,
    )
    return t.op(name, fn, [x, *(args[i] for i in slots), *(kwargs[k] for k in words)], [(shape, dtype)], key)[0]


@rule("batch_norm")
def batch_norm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(
        zip(("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"), args),
        **kwargs,
    )
    x, mean, var = given["input"], given.get("running_mean"), given.get("running_var")
    if given.get("training", False):
        if mean is not None or var is not None:
            from plait.batching._site import refuse

            refuse(
                "batch_norm in training mode writes its running_mean, which all examples share",
                "call .eval(), or track_running_stats=False, or use LayerNorm or GroupNorm: one example at a time has no "  # noqa: E501
                "batch to normalise over",
            )
        raise NoRule
    if not isinstance(x, Lazy) or t.is_ragged(x) or len(x.meta.shape) < 2 or mean is None or var is None:
        raise NoRule
    shape, dtype = t.infer(name, F.batch_norm, args, kwargs)[0]
    w, b, eps = given.get("weight"), given.get("bias"), given.get("eps", 1e-5)
    ins = [x, mean, var, *(p for p in (w, b) if p is not None)]
    has = (w is not None, b is not None)

    def fn(a: Tensor, m: Tensor, v: Tensor, *p: Tensor) -> Tensor:
        it = iter(p)
        y = F.batch_norm(
            a.flatten(0, 1), m, v, next(it) if has[0] else None, next(it) if has[1] else None, False, 0.0, eps
        )
        return y.view(a.shape)

    return t.op(name, fn, ins, [(shape, dtype)], (has, eps))[0]


@rule("group_norm")
def group_norm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("input", "num_groups", "weight", "bias", "eps"), args), **kwargs)
    x, groups, w, b, eps = (
        given["input"],
        given["num_groups"],
        given.get("weight"),
        given.get("bias"),
        given.get("eps", 1e-5),
    )
    if not isinstance(x, Lazy) or t.is_ragged(x) or isinstance(w, Lazy) or isinstance(b, Lazy) or len(x.meta.shape) < 2:
        raise NoRule
    shape, dtype = t.infer(name, F.group_norm, args, kwargs)[0]
    has = (w is not None, b is not None)

    def fn(a: Tensor, *p: Tensor) -> Tensor:
        it = iter(p)
        y = F.group_norm(a.flatten(0, 1), groups, next(it) if has[0] else None, next(it) if has[1] else None, eps)
        return y.view(a.shape)

    return t.op(name, fn, [x, *(p for p in (w, b) if p is not None)], [(shape, dtype)], (groups, has, eps))[0]


__all__ = ["torch"]
