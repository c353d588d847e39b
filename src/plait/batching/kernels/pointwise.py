"""Elementwise ops: the batched form is the op itself, once the ranks are aligned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule
from plait.batching.kernels._table import LOWER, fill, freeze, rep, rule, split_tensors, torch_callable

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

NAMES = [
    "tanh",
    "sigmoid",
    "relu",
    "exp",
    "log",
    "neg",
    "abs",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expm1",
    "log1p",
    "log2",
    "log10",
    "square",
    "reciprocal",
    "sign",
    "sgn",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "positive",
    "lgamma",
    "digamma",
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "fmod",
    "remainder",
    "floor_divide",
    "hypot",
    "copysign",
    "xlogy",
    "logaddexp",
    "logaddexp2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "isnan",
    "isinf",
    "isfinite",
    "isclose",
    "where",
    "clamp",
    "clamp_min",
    "clamp_max",
    "addcmul",
    "addcdiv",
    "lerp",
    "masked_fill",
    "nan_to_num",
    "heaviside",
    "threshold",
    "relu6",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "softsign",
    "leaky_relu",
    "logsigmoid",
    "hardtanh",
    "hardswish",
    "hardsigmoid",
    "hardshrink",
    "softshrink",
    "tanhshrink",
    "clone",
    "signbit",
    "sinc",
    "logit",
    "rad2deg",
    "deg2rad",
    "angle",
    "float_power",
    "nextafter",
    "ldexp",
    "gcd",
    "lcm",
]


def _assign(x: Tensor, v: Any) -> Tensor:
    if not isinstance(v, Tensor):
        return torch.full_like(x, v)
    return v.to(x.dtype).expand(torch.broadcast_shapes(x.shape, v.shape)).clone()  # type: ignore[no-untyped-call]


def _alias(x: Tensor) -> Tensor:
    return x


def _detach(x: Tensor) -> Tensor:
    return x.detach()


OWN: dict[str, Any] = {"assign": _assign, "alias": _alias, "detach": _detach}


def func_of(name: str) -> Any:
    own = OWN.get(name)
    if own is not None:
        return own
    if name in ("masked_fill", "relu", "clone"):
        return getattr(Tensor, name)
    return getattr(F, name) if hasattr(F, name) and not hasattr(torch, name) else torch_callable(name)


def pointwise(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kwargs = {k: v for k, v in kwargs.items() if not (k == "inplace" or (k == "memory_format"))}
    if name in (
        "gelu",
        "leaky_relu",
        "elu",
        "selu",
        "celu",
        "silu",
        "mish",
        "hardtanh",
        "relu6",
        "hardswish",
        "hardsigmoid",
        "threshold",
    ):
        args = tuple(a for i, a in enumerate(args) if not (isinstance(a, bool) and i == len(args) - 1))
    func = func_of(name)
    outs = t.infer(name, func, args, kwargs)
    return emit_pointwise(t, name, func, args, kwargs, outs[0])


def emit_pointwise(
    t: Tracer,
    name: str,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: tuple[tuple[int, ...], torch.dtype],
    consts: tuple[Any, ...] = (),
) -> Lazy:
    """An elementwise `func`; `out` is its per-example shape and dtype."""
    tensors: list[Any] = []
    spec = split_tensors((args, kwargs), tensors)
    shape = out[0]
    ragged = any(t.is_ragged(x) for x in tensors)
    if ragged:
        t.check_ragged(shape, tensors)
    rank = len(shape) - 1 if ragged else len(shape)
    aligned: list[Any] = []
    for x in tensors:
        if not isinstance(x, Lazy):
            if ragged and x.dim() == len(shape):
                if x.shape[0] != 1:
                    raise NoRule
                x = x.squeeze(0)
            aligned.append(x)
            continue
        if ragged and not t.is_ragged(x):
            if len(x.meta.shape) == len(shape):
                if x.meta.shape[0] != 1:
                    raise NoRule
                x = t.reshape(x, tuple(x.meta.shape[1:]))
            x = rep(t, x)
        inner = t.val(x).inner
        if len(inner) < rank:
            x = t.align(x, rank)
        aligned.append(x)
    simple = all(isinstance(a, Tensor) for a in args) and not kwargs
    if simple:
        fn = func
    else:

        def fn(*xs: Tensor) -> Any:
            a, k = fill(spec, xs)
            return func(*a, **k)

    return t.op(
        name,
        fn,
        aligned,
        [out],
        (*consts, None if simple else freeze(spec)),
        ragged=ragged,
        tracks=False if name == "detach" else None,
    )[0]


for _n in (*NAMES, *OWN):
    LOWER[_n] = pointwise


@rule("to_dtype")
def to_dtype(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, dtype = args
    return emit_pointwise(t, name, lambda a: a.to(dtype), (x,), {}, (tuple(x.meta.shape), dtype), (dtype,))


@rule("glu")
def glu(t: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    a, b = x.chunk(2, dim)
    return a * torch.sigmoid(b)
