"""Tensor views, joins and indexing: the same call with the dimensions shifted past the batch."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule, Rows
from plait.batching.kernels._table import Slot, fill, freeze, rep, rule, split_tensors, torch_callable

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


@rule("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous", "ravel")
def reshaped(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    if name == "view" and len(args) == 2 and isinstance(args[1], torch.dtype):
        raise NoRule
    shape, _ = t.infer(
        name,
        torch_callable("reshape" if name == "contiguous" else name)
        if name != "contiguous"
        else (lambda x, **k: x.contiguous()),
        args,
        kwargs,
    )[0]
    return t.reshape(args[0], shape)


@rule("transpose", "permute", "t", "T", "mT", "movedim", "adjoint", "H", "mH")
def moved(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    v = t.val(x)
    rank = len(v.shape)
    if v.dtype.is_complex and name in ("adjoint", "H", "mH"):
        raise NoRule
    func = torch_callable(name)
    shape, dtype = t.infer(name, func, args, kwargs)[0]
    order = _order(name, func, rank, args[1:], kwargs)
    if v.ragged:
        if order[0] != 0:
            raise NoRule
        perm = tuple(order)
    else:
        perm = (0, *(d + 1 for d in order))
    if perm == tuple(range(len(perm))):
        return t.op("alias", lambda a: a, [x], [(shape, dtype)], ragged=v.ragged)[0]
    return t.op("permute", lambda a: a.permute(perm), [x], [(shape, dtype)], (perm,), ragged=v.ragged)[0]


def _order(name: str, func: Any, rank: int, args: Args, kwargs: Kwargs) -> list[int]:
    """Where each dimension goes, found by moving distinct sizes."""
    with torch._C.DisableTorchFunction():
        probe = torch.empty(tuple(range(2, rank + 2)), device="meta")
        return [s - 2 for s in func(probe, *args, **kwargs).shape]


@rule("expand", "broadcast_to", "repeat", "tile")
def expanded(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    v = t.val(x)
    func = torch_callable(name)
    shape, dtype = t.infer(name, func, args, kwargs)[0]
    if name in ("expand", "broadcast_to"):
        if v.ragged:
            if shape[0] != v.shape[0] or len(shape) != len(v.shape):
                raise NoRule
            inner = shape[1:]
            return t.op("expand", lambda a: a.expand(a.shape[0], *inner), [x], [(shape, dtype)], (inner,), ragged=True)[
                0
            ]
        x = t.align(x, len(shape))
        return t.op("expand", lambda a: a.expand(a.shape[0], *shape), [x], [(shape, dtype)], (shape,))[0]
    sizes = args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]
    if v.ragged or not sizes or len(sizes) < len(v.shape):
        raise NoRule
    x = t.align(x, len(sizes))
    return t.op(name, lambda a: a.repeat(1, *sizes), [x], [(shape, dtype)], (tuple(sizes),))[0]


def narrow(t: Tracer, x: Lazy, dim: int, start: int, length: int) -> Lazy:
    v = t.val(x)
    shape = tuple(length if d == dim else s for d, s in enumerate(v.shape))
    if v.ragged and dim == 0:
        raise NoRule
    d = dim if v.ragged else dim + 1
    return t.op(
        "narrow",
        lambda a: a.narrow(d, start, length),
        [x],
        [(shape, v.dtype)],
        (d, start, length),
        ragged=v.ragged,
    )[0]


@rule("narrow")
def narrow_rule(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    func = torch.narrow
    t.infer(name, func, args, kwargs)
    if kwargs or any(isinstance(a, Tensor) for a in args[1:]):
        raise NoRule
    x, dim, start, length = args
    rank = len(x.meta.shape)
    dim %= rank
    return narrow(t, x, dim, start % max(x.meta.shape[dim], 1) if start < 0 else start, length)


@rule("select")
def select_rule(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    t.infer(name, torch.select, args, kwargs)
    x, dim, i = args
    return getitem(t, "__getitem__", (x, (*(slice(None),) * (dim % len(x.meta.shape)), i)), {})


@rule("chunk", "split", "unbind", "tensor_split", "split_with_sizes", "hsplit", "vsplit", "dsplit")
def parts(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    func = torch_callable(name)
    outs = t.infer(name, func, args, kwargs)
    v = t.val(x)
    if name == "unbind":
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    elif name in ("hsplit", "vsplit", "dsplit"):
        raise NoRule
    else:
        dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    dim %= len(v.shape)
    if v.ragged and dim == 0:
        raise NoRule
    if name == "unbind":
        pre = (slice(None),) * dim
        return tuple(getitem(t, "__getitem__", (x, (*pre, i)), {}) for i in range(v.shape[dim]))
    res, at = [], 0
    for shape, _ in outs:
        res.append(narrow(t, x, dim, at, shape[dim]))
        at += shape[dim]
    return tuple(res)


@rule("__getitem__")
def getitem(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x, index = args
    if not isinstance(x, Lazy):
        raise NoRule
    v = t.val(x)
    parts_: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
    tensors = [p for p in parts_ if isinstance(p, Tensor)]
    if (
        any(isinstance(p, Lazy) for p in tensors)
        or len(tensors) > 1
        or any(isinstance(p, (list, range)) for p in parts_)
    ):
        return lookup(t, x, parts_)
    if any(isinstance(p, (bool,)) for p in parts_) or any(p.dtype == torch.bool for p in tensors):
        raise NoRule
    shape, dtype = t.infer(name, Tensor.__getitem__, args, kwargs)[0]
    if v.ragged:
        if not parts_ or parts_[0] != slice(None) or any(p is None or p is Ellipsis for p in parts_[:1]):
            raise NoRule
        phys: tuple[Any, ...] = parts_
    else:
        phys = (slice(None), *parts_)
    found: list[Any] = []
    spec = split_tensors(phys, found)
    one = [p for p in phys[1:] if p != slice(None)] if not found else [None, None]
    if len(one) == 1 and type(one[0]) is slice and one[0].step in (None, 1):
        d = next(i for i, p in enumerate(phys) if i and p != slice(None))
        if Ellipsis not in phys:
            start, stop, _ = one[0].indices(v.inner[d - 1])
            return t.op(
                "narrow",
                lambda a: a.narrow(d, start, max(stop - start, 0)),
                [x],
                [(shape, dtype)],
                (d, start, max(stop - start, 0)),
                ragged=v.ragged,
            )[0]
    if len(one) == 1 and type(one[0]) is int and Ellipsis not in phys:
        d = next(i for i, p in enumerate(phys) if i and p != slice(None))
        at = one[0] % v.inner[d - 1]
        return t.op("select", lambda a: a.select(d, at), [x], [(shape, dtype)], (d, at), ragged=v.ragged)[0]
    if not found:
        return t.op("getitem", lambda a: a[phys], [x], [(shape, dtype)], (freeze(phys),), ragged=v.ragged)[0]
    return t.op(
        "getitem",
        lambda a, *ix: a[fill(spec, ix)],
        [x, *found],
        [(shape, dtype)],
        (freeze(spec),),
        ragged=v.ragged,
    )[0]


def lookup(t: Tracer, x: Lazy, parts_: tuple[Any, ...]) -> Lazy:
    """x[i, j] with integer tensors for all of the first dimensions: each example looks into its own x."""
    if t.is_ragged(x) or any(t.is_ragged(p) for p in parts_) or not all(isinstance(p, Tensor) for p in parts_):
        raise NoRule
    if any(p.dtype in (torch.bool, torch.uint8) for p in parts_):
        raise NoRule
    shape, dtype = t.infer("__getitem__", Tensor.__getitem__, (x, parts_), {})[0]
    rank = max(len(p.shape) for p in parts_)
    ix = [t.align(p, rank) if isinstance(p, Lazy) else p for p in parts_]

    def fn(a: Tensor, *idx: Tensor) -> Tensor:
        at = torch.arange(a.shape[0], device=a.device).view(-1, *(1,) * rank)
        return a[(at, *idx)]

    return t.op("lookup", fn, [x, *ix], [(shape, dtype)], (len(parts_),))[0]


@rule("table_lookup")
def table_lookup(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    """A shared table indexed by an example's own integers."""
    ids, table = args
    if isinstance(table, Lazy) or not isinstance(ids, Lazy):
        raise NoRule
    v = t.val(ids)
    shape = (*v.shape, *table.shape[1:])
    return t.op("table_lookup", lambda i, w: w[i], [ids, table], [(shape, table.dtype)], ragged=v.ragged)[0]


@rule("cat", "stack", "hstack", "vstack", "dstack")
def join(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    xs = args[0] if args else kwargs.get("tensors")
    if name not in ("cat", "stack") or not isinstance(xs, (list, tuple)):
        raise NoRule
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    shape, dtype = t.infer(name, torch_callable(name), args, kwargs)[0]
    dim %= len(shape)  # type: ignore[operator]
    if name == "cat":
        xs = [x for x in xs if tuple(x.shape) != (0,) or len(shape) == 1]
    ragged = any(t.is_ragged(x) for x in xs)
    if ragged and dim == 0:
        raise NoRule
    ins: list[Any] = []
    like = next(x for x in xs if isinstance(x, Lazy) and t.is_ragged(x) == ragged)
    for x in xs:
        if not isinstance(x, Lazy):
            if ragged and (x.dim() == 0 or x.shape[0] != 1):
                raise NoRule
            x = t.spread(x.squeeze(0) if ragged else x, like, ragged, tuple(x.shape))
        elif ragged and not t.is_ragged(x):
            if x.meta.shape[0] != 1:
                raise NoRule
            x = rep(t, t.reshape(x, tuple(x.meta.shape[1:])))
        ins.append(x)
    d = dim if ragged else dim + 1
    f = torch.cat if name == "cat" else torch.stack
    return t.op(name, lambda *a: f(a, d), ins, [(shape, dtype)], (d,), ragged=ragged)[0]


@rule("view_scatter")
def view_scatter(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    """`root` with the part that `chain` looks at replaced: what a write through a tensor view does."""
    root, new, chain = args
    if t.is_ragged(root) or t.is_ragged(new):
        raise NoRule
    shape = tuple(root.shape)
    with torch._C.DisableTorchFunction():
        at = torch.arange(prod(shape)).view(shape)
        for n, a, k in chain:
            if n != "detach":
                f = Tensor.__getitem__ if n == "__getitem__" else torch_callable(n)
                at = f(at, *a, **dict(k))
        where = at.reshape(-1)
    size = prod(shape)

    def fn(r: Tensor, v: Tensor) -> Tensor:
        n = r.shape[0] if r_lazy else v.shape[0]
        flat = r.reshape(n, size) if r_lazy else r.reshape(1, size).expand(n, size)
        w = v.reshape(n, -1) if v_lazy else v.reshape(1, -1).expand(n, where.numel())
        return flat.index_copy(1, where.to(flat.device), w.to(flat.dtype)).view(n, *shape)

    r_lazy, v_lazy = isinstance(root, Lazy), isinstance(new, Lazy)
    return t.op("view_scatter", fn, [root, new], [(shape, root.dtype)], (freeze(chain),))[0]


@rule("index_put")
def index_put(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x, idx, value = args[:3]
    acc = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    if (
        any(p.dtype == torch.bool for p in idx)
        or t.is_ragged(x)
        or t.is_ragged(value)
        or any(t.is_ragged(p) for p in idx)
    ):
        raise NoRule
    shape, dtype = t.infer(name, torch.index_put, args, kwargs)[0]
    rank = max(len(p.shape) for p in idx)
    vrank = rank + len(shape) - len(idx)
    ix = [t.align(p, rank) if isinstance(p, Lazy) else p for p in idx]
    val = t.align(value, vrank) if isinstance(value, Lazy) else value
    lazies = [isinstance(a, Lazy) for a in (x, *ix, val)]

    def fn(a: Tensor, *rest: Tensor) -> Tensor:
        n = next(r.shape[0] for r, z in zip((a, *rest), lazies) if z)
        if not lazies[0]:
            a = a.expand(n, *a.shape)
        at = torch.arange(n, device=a.device).view(-1, *(1,) * rank)
        return a.index_put((at, *rest[:-1]), rest[-1], acc)

    return t.op("index_put", fn, [x, *ix, val], [(shape, dtype)], (len(idx), bool(acc)))[0]


@rule("gather", "take_along_dim")
def gather(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    if name != "gather" or len(args) != 3 or kwargs or not all(isinstance(a, Lazy) for a in (args[0], args[2])):
        raise NoRule
    x, dim, ix = args
    rank = len(x.meta.shape)
    if rank == 0 or t.is_ragged(x) != t.is_ragged(ix):
        raise NoRule
    dim %= rank
    ragged = t.is_ragged(x)
    shape, dtype = t.infer(name, torch.gather, args, kwargs)[0]
    inner_same = all(a <= b for a, b in zip(ix.meta.shape, x.meta.shape))
    if (ragged and dim == 0) or not inner_same:
        raise NoRule
    d = dim if ragged else dim + 1
    return t.op("gather", lambda a, i: a.gather(d, i), [x, ix], [(shape, dtype)], (d,), ragged=ragged)[0]


__all__ = ["Rows", "Slot", "narrow"]
