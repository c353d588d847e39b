"""Products with weights and with one another, embeddings, layer norm, attention."""

from __future__ import annotations

from math import prod
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


@rule("linear")
def linear(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0] if args else kwargs["input"]
    w = args[1] if len(args) > 1 else kwargs["weight"]
    b = args[2] if len(args) > 2 else kwargs.get("bias")
    shape, dtype = t.infer(name, F.linear, (x, w, b), {})[0]
    if isinstance(w, Lazy):
        y = torch.matmul(x, w.mT if w.dim() > 1 else w)  # type: ignore[arg-type]
        return y if b is None else y + b
    if w.dim() != 2 or (t.is_ragged(x) and len(x.meta.shape) < 2):
        raise NoRule
    if isinstance(b, Lazy) or (b is not None and b.dim() != 1):
        return linear(t, name, (x, w), {}) + b
    return t.op("linear", F.linear, [x, w] if b is None else [x, w, b], [(shape, dtype)], ragged=t.is_ragged(x))[0]


@rule("matmul", "mm", "mv", "bmm", "dot", "inner", "vdot")
def matmul(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    a, b = args
    func = torch_callable(name)
    shape, dtype = t.infer(name, func, args, kwargs)[0]
    if name in ("inner", "vdot") and (len(a.shape) != 1 or dtype.is_complex):
        raise NoRule
    ra, rb = len(a.shape), len(b.shape)
    ragged_a, ragged_b = t.is_ragged(a), t.is_ragged(b)
    if ragged_b or (ragged_a and ra < 2):  # would sum over the ragged dimension
        raise NoRule
    if not isinstance(b, Lazy):
        if rb > 2:
            raise NoRule
        if ra == 1 and rb == 1:
            return (a * b).sum()
        return t.op("matmul_w", torch.matmul, [a, b], [(shape, dtype)], ragged=ragged_a)[0]
    if not isinstance(a, Lazy):
        if ra == 2 and rb == 1:
            return t.op("linear", F.linear, [b, a], [(shape, dtype)])[0]
        if ra == 1 and rb == 1:
            return (a * b).sum()
        if ra < 2 or rb < 2:
            raise NoRule
        b = t.align(b, max(ra, rb))
        return t.op("matmul", torch.matmul, [a, b], [(shape, dtype)])[0]
    if ragged_a:
        raise NoRule
    if ra == 1 and rb == 1:
        left: Any = a
        return (left * b).sum()
    if ra == 1:
        return t.reshape(matmul(t, "matmul", (t.reshape(a, (1, *a.meta.shape)), b), {}), shape)
    if rb == 1:
        return t.reshape(matmul(t, "matmul", (a, t.reshape(b, (*b.meta.shape, 1))), {}), shape)
    rank = max(ra, rb)
    return t.op("matmul", torch.matmul, [t.align(a, rank), t.align(b, rank)], [(shape, dtype)])[0]


@rule("addmm", "addmv", "addbmm_simple", "baddbmm")
def addmm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    t.infer(name, torch_callable(name), args, kwargs)
    c, a, b = args
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    y = torch.matmul(a, b)
    if alpha != 1:
        y = y * alpha
    if beta != 1:
        c = c * beta
    return c + y


@rule("outer", "ger")
def outer(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    a, b = args
    t.infer("outer", torch.outer, args, kwargs)
    return a.reshape(-1, 1) * b


@rule("bilinear")
def bilinear(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    a, b, w = args[:3]
    bias = args[3] if len(args) > 3 else kwargs.get("bias")
    if any(t.is_ragged(x) for x in (a, b)) and not all(t.is_ragged(x) for x in (a, b)):
        raise NoRule
    if not isinstance(a, Lazy) or not isinstance(b, Lazy) or isinstance(w, Lazy) or isinstance(bias, Lazy):
        raise NoRule
    if t.is_ragged(a) and len(a.meta.shape) < 2:
        raise NoRule
    shape, dtype = t.infer(name, F.bilinear, (a, b, w, bias), {})[0]
    return t.op(
        "bilinear",
        F.bilinear,
        [a, b, w] if bias is None else [a, b, w, bias],
        [(shape, dtype)],
        ragged=t.is_ragged(a),
    )[0]


@rule("embedding")
def embedding(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
    given = dict(zip(names, args), **kwargs)
    ids, w = given["input"], given["weight"]
    if given.get("max_norm") is not None or given.get("scale_grad_by_freq") or given.get("sparse"):
        raise NoRule
    if isinstance(w, Lazy):
        return lookup_own(t, ids, w)
    shape, dtype = t.infer(name, F.embedding, (ids, w), {})[0]
    pad = given.get("padding_idx")
    if pad is not None and pad < 0:
        pad += w.shape[0]
    return t.op(
        "embedding",
        lambda i, e: F.embedding(i, e, pad),
        [ids, w],
        [(shape, dtype)],
        (pad,),
        ragged=t.is_ragged(ids),
    )[0]


def lookup_own(t: Tracer, ids: Any, w: Lazy) -> Any:
    raise NoRule


@rule("layer_norm")
def layer_norm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("input", "normalized_shape", "weight", "bias", "eps"), args), **kwargs)
    x, shape = given["input"], tuple(given["normalized_shape"])
    w, b, eps = given.get("weight"), given.get("bias"), given.get("eps", 1e-5)
    out, dtype = t.infer(name, F.layer_norm, (x, shape, w, b, eps), {})[0]
    if not isinstance(x, Lazy) or isinstance(w, Lazy) or isinstance(b, Lazy):
        raise NoRule
    if t.is_ragged(x) and len(shape) >= len(out):
        raise NoRule
    ins = [x, *(p for p in (w, b) if p is not None)]
    has = (w is not None, b is not None)

    def fn(a: Tensor, *p: Tensor) -> Tensor:
        it = iter(p)
        return F.layer_norm(a, shape, next(it) if has[0] else None, next(it) if has[1] else None, eps)

    return t.op("layer_norm", fn, ins, [(out, dtype)], (shape, has, eps), ragged=t.is_ragged(x))[0]


@rule("rms_norm")
def rms_norm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("input", "normalized_shape", "weight", "eps"), args), **kwargs)
    x, shape, w, eps = given["input"], tuple(given["normalized_shape"]), given.get("weight"), given.get("eps")
    out, dtype = t.infer(name, F.rms_norm, (x, shape, w, eps), {})[0]
    if not isinstance(x, Lazy) or isinstance(w, Lazy) or (t.is_ragged(x) and len(shape) >= len(out)):
        raise NoRule
    return t.op(
        "rms_norm",
        lambda a, *p: F.rms_norm(a, shape, *p, eps=eps),  # type: ignore[misc]
        [x] if w is None else [x, w],
        [(out, dtype)],
        (shape, eps),
        ragged=t.is_ragged(x),
    )[0]


@rule("normalize")
def normalize(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("input", "p", "dim", "eps"), args), **kwargs)
    x, p, dim, eps = given["input"], given.get("p", 2.0), given.get("dim", 1), given.get("eps", 1e-12)
    out, dtype = t.infer(name, F.normalize, (x, p, dim, eps), {})[0]
    rank = len(out)
    ragged = t.is_ragged(x)
    if not isinstance(dim, int) or rank == 0 or (ragged and dim % rank == 0):
        raise NoRule
    d = dim % rank + (0 if ragged else 1)
    return t.op("normalize", lambda a: F.normalize(a, p, d, eps), [x], [(out, dtype)], (p, d, eps), ragged=ragged)[0]


@rule("cosine_similarity")
def cosine_similarity(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("x1", "x2", "dim", "eps"), args), **kwargs)
    a, b, dim, eps = given["x1"], given["x2"], given.get("dim", 1), given.get("eps", 1e-8)
    out, dtype = t.infer(name, F.cosine_similarity, (a, b, dim, eps), {})[0]
    if (
        not (isinstance(a, Lazy) and isinstance(b, Lazy))
        or a.meta.shape != b.meta.shape
        or t.is_ragged(a)
        or t.is_ragged(b)
    ):
        raise NoRule
    d = dim % len(a.meta.shape) + 1
    return t.op(name, lambda x, y: F.cosine_similarity(x, y, d, eps), [a, b], [(out, dtype)], (d, eps))[0]


@rule("scaled_dot_product_attention")
def attention(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args), **kwargs)
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    if given.get("dropout_p", 0.0):
        t.random("scaled_dot_product_attention", None, args, kwargs)
    rest = {n: given[n] for n in ("is_causal", "scale", "enable_gqa") if n in given}
    tensors = [q, k, v] + ([] if mask is None else [mask])
    if not all(isinstance(x, Lazy) for x in (q, k, v)) or any(t.is_ragged(x) for x in tensors) or len(q.meta.shape) < 2:
        raise NoRule
    if len({len(x.meta.shape) for x in (q, k, v)}) > 1:
        raise NoRule
    shape, dtype = t.infer(name, F.scaled_dot_product_attention, (q, k, v, mask), rest)[0]  # type: ignore[arg-type]
    if isinstance(mask, Lazy):
        tensors[3] = t.align(mask, len(q.meta.shape))

    def fn(a: Tensor, b: Tensor, c: Tensor, m: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(a, b, c, m, **rest)

    return t.op("attention", fn, tensors, [(shape, dtype)], (freeze(rest), mask is None))[0]


def flat_size(shape: tuple[int, ...]) -> int:
    return prod(shape)
