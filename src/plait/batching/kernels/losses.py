"""Losses: row by row, then the reduction that one example would have seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule
from plait.batching.kernels._table import rule
from plait.batching.kernels.pointwise import emit_pointwise

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
ELEMENTWISE = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
    "kl_div",
    "poisson_nll_loss",
)


@rule(*ELEMENTWISE)
def elementwise(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    func = getattr(F, name)
    rest = dict(kwargs)
    if rest.pop("size_average", None) is not None or rest.pop("reduce", None) is not None or len(args) > 2:
        raise NoRule
    reduction = rest.pop("reduction", "mean")
    if any(isinstance(v, Tensor) for v in rest.values()):
        raise NoRule
    a = args[0] if args else rest.pop("input")
    b = args[1] if len(args) > 1 else rest.pop("target")
    if tuple(a.shape) != tuple(b.shape):
        raise NoRule  # broadcast, and the warning that goes with it
    out = t.infer(name, func, (a, b), {**rest, "reduction": "none"})[0]
    each = emit_pointwise(
        t,
        name,
        lambda x, y: func(x, y, reduction="none", **rest),
        (a, b),
        {},
        out,
        tuple(sorted((k, repr(v)) for k, v in rest.items())),
    )
    if reduction == "none":
        return each
    if reduction == "batchmean":
        return each.sum() / a.shape[0]
    if not each.meta.shape:
        return each
    return each.sum() if reduction == "sum" else each.mean()


@rule("cross_entropy", "nll_loss")
def cross_entropy(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(
        zip(
            (
                "input",
                "target",
                "weight",
                "size_average",
                "ignore_index",
                "reduce",
                "reduction",
                "label_smoothing",
            ),
            args,
        ),
        **kwargs,
    )
    x, y = given["input"], given["target"]
    skip, reduction = given.get("ignore_index", -100), given.get("reduction", "mean")
    smooth = given.get("label_smoothing", 0.0)
    if given.get("weight") is not None or given.get("size_average") is not None or given.get("reduce") is not None:
        raise NoRule
    if y.dtype.is_floating_point or not isinstance(x, Lazy) or len(x.meta.shape) not in (1, 2):
        raise NoRule
    func = getattr(F, name)
    extra = {"label_smoothing": smooth} if name == "cross_entropy" else {}
    t.infer(name, func, (x, y), {"reduction": reduction, "ignore_index": skip, **extra})
    ragged = t.is_ragged(x)
    if ragged and len(x.meta.shape) < 2:  # the classes would be the ragged dimension
        raise NoRule
    if not isinstance(y, Lazy):
        if ragged:
            raise NoRule
        y = t.spread(y, x, False, tuple(y.shape))
    if t.is_ragged(y) != ragged:
        raise NoRule
    shape = tuple(y.meta.shape)
    rows2 = len(x.meta.shape) == 2 and not ragged

    def fn(a: Tensor, b: Tensor) -> Tensor:
        if rows2:
            n, k = b.shape
            return func(  # type: ignore[no-any-return]
                a.reshape(n * k, a.shape[-1]), b.reshape(-1), ignore_index=skip, reduction="none", **extra
            ).view(n, k)
        return func(a, b, ignore_index=skip, reduction="none", **extra)  # type: ignore[no-any-return]

    each = t.op(name + ("2" if rows2 else ""), fn, [x, y], [(shape, x.meta.dtype)], (skip, smooth), ragged=ragged)[0]
    if reduction == "none" or (not shape and reduction == "sum"):
        return each
    if reduction == "sum":
        return each.sum()
    kept = (y != skip).to(x.meta.dtype)
    return each / kept if not shape else each.sum() / kept.sum()


@rule("triplet_margin_loss", "cosine_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "ctc_loss")
def other(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    raise NoRule


__all__ = ["torch"]
