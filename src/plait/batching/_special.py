"""Calls that need a form of their own on lazy tensors, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._current import Runtime
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._shared import Args, Kwargs, has_lazy, plain, unwrap
from plait.batching._site import refuse
from plait.batching._views import is_advanced, is_mask, spelled_out, view
from plait.batching._writes import fresh, write

Special = Callable[[Runtime, Args, Kwargs], Any]


def _size(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    shape = args[0].shape
    d = args[1] if len(args) > 1 else kwargs.get("dim")
    return shape if d is None else shape[d]


def _detach(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy or type(x.extra) is Const:
        return plain(rt, "detach", Tensor.detach, args, kwargs)
    return view(rt, "detach", args, kwargs)


def _requires_grad(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    want = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if type(x) is Lazy and bool(want) == x.meta.tracks:
        return x
    return refuse(
        "`requires_grad_` inside plait.batch",
        "mark the examples or parameters before the call, or use detach()",
    )


def _same(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    return args[0]


def _to(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy:
        return plain(rt, "to", Tensor.to, args, kwargs)
    dtype, device, copy = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("copy", False)
    for a in args[1:]:
        if isinstance(a, torch.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, (str, torch.device, int)) and not isinstance(a, bool):
            device = a
    if device is not None and torch.device(device).type != x.meta.device.type:
        refuse("a move to another device inside plait.batch", "move the model and the examples before the call")
    if dtype is None or dtype == x.meta.dtype:
        return rt.emit("clone", (x,), {}) if copy else x
    return rt.emit("to_dtype", (x, dtype), {})


def _cast(dtype: torch.dtype) -> Special:
    return lambda rt, args, kwargs: _to(rt, (args[0], dtype), {})


def _numel(rt: Runtime, args: Args, kwargs: Kwargs) -> int:
    n = 1
    for s in args[0].shape:
        n = n * s
    return n


def _stride(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    strides: list[int] = []
    for n in reversed(args[0].shape[1:]):
        strides.insert(0, (strides[0] if strides else 1) * n)
    found = (*strides, 1)[-len(args[0].shape) :] if args[0].shape else ()
    d = args[1] if len(args) > 1 else kwargs.get("dim")
    return found if d is None else found[d]


def _method(name: str) -> Special:
    def read(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        if type(x) is Lazy:
            return getattr(Lazy, name)(x, *args[1:], **kwargs)
        with private.DisableTorchFunction():
            return getattr(Tensor, name)(*args, **kwargs)

    return read


def _getitem(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is Lazy and type(x.extra) is not Const:
        index = args[1]
        if type(index) is tuple and not is_advanced(index):
            index = spelled_out(index, len(x.meta.shape))
        return view(rt, "__getitem__", (x, index), kwargs)
    if not has_lazy(args[1]):
        return plain(rt, "__getitem__", Tensor.__getitem__, args, kwargs)
    i = args[1]
    if isinstance(i, Tensor) and not is_mask(i) and i.dim() > 0:
        return rt.emit("table_lookup", (i, unwrap(x)), {})
    if isinstance(i, Tensor) and not is_mask(i):
        return rt.emit("table_lookup", (i, unwrap(x)), {})
    return rt.alone("__getitem__", Tensor.__getitem__, (unwrap(x), i), {})


def _setitem(rt: Runtime, args: Args, kwargs: Kwargs) -> None:
    x, index, value = args
    if type(x) is not Lazy and (has_lazy(index) or has_lazy(value) or isinstance(x, Tensor)):
        refuse(
            f"`[...] = ` writes to {rt.name_of(x)}",
            "make the tensor inside the function for one example, or return the values and write them outside",
        )
    fresh(rt, x)
    if type(x.extra) is Const and not is_advanced(index) and x.extra.source is None:
        rt.own(x)
    if is_advanced(index):
        parts = index if isinstance(index, tuple) else (index,)
        if (
            isinstance(index, Tensor)
            and index.dtype == torch.bool
            and not (isinstance(value, Tensor) and value.dim() > 0)
        ):
            mask = (
                index
                if index.dim() == x.meta.shape.__len__()
                else index.reshape(tuple(index.shape) + (1,) * (len(x.meta.shape) - index.dim()))
            )
            new = _where(rt, (mask, value, x), {})
            write(rt, x, new)
            return
        if all(isinstance(k, (Tensor, list)) for k in parts):
            idx = tuple(torch.tensor(k) if isinstance(k, list) else k for k in parts)
            v = value if isinstance(value, Tensor) else torch.tensor(value, dtype=x.meta.dtype)
            if isinstance(v, Tensor) and v.dtype != x.meta.dtype:
                v = _to(rt, (v, x.meta.dtype), {})
            write(rt, x, rt.emit("index_put", (x, idx, v), {}))
            return
        refuse("an assignment with this mix of indices", "split it into two assignments, or use torch.where")
    if isinstance(index, (slice, tuple)) and has_lazy(index):
        index = tuple(
            int(k)
            if isinstance(k, Lazy)
            else slice(*(None if v is None else int(v) for v in (k.start, k.stop, k.step)))
            if isinstance(k, slice)
            else k
            for k in (index if isinstance(index, tuple) else (index,))
        )
    target = view(rt, "__getitem__", (x, index), {})
    if isinstance(value, Tensor):
        extra = len(value.shape) - len(target.meta.shape)
        if extra > 0 and all(s == 1 for s in value.shape[:extra]):
            value = _reshaped(rt, value, tuple(value.shape)[extra:])
    write(rt, target, value)


def _reshaped(rt: Runtime, x: Any, shape: tuple[int, ...]) -> Any:
    if has_lazy(x):
        return view(rt, "reshape", (x, shape), {})
    return plain(rt, "reshape", Tensor.reshape, (x, shape), {})


def _where(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 1 and not kwargs and has_lazy(args):
        return rt.alone("where", torch.where, args, kwargs)
    if not has_lazy(args):
        return plain(rt, "where", torch.where, args, kwargs)
    if isinstance(args[0], Tensor) and hasattr(Tensor, "where") and args[0].dtype != torch.bool and len(args) == 3:
        args = (args[1], args[0], args[2])  # the method: x.where(condition, other)
    return rt.emit("where", args, kwargs)


BY_NAME: dict[str, Special] = {
    "__setitem__": _setitem,
    "__getitem__": _getitem,
    "size": _size,
    "stride": _stride,
    "dim": lambda rt, a, k: len(a[0].shape),
    "numel": _numel,
    "nelement": _numel,
    "ndimension": lambda rt, a, k: len(a[0].shape),
    "detach": _detach,
    "requires_grad_": _requires_grad,
    "to": _to,
    "type_as": lambda rt, a, k: _to(rt, (a[0], a[1].dtype), {}),
    "float": _cast(torch.float32),
    "double": _cast(torch.float64),
    "half": _cast(torch.float16),
    "bfloat16": _cast(torch.bfloat16),
    "long": _cast(torch.int64),
    "int": _cast(torch.int32),
    "bool": _cast(torch.bool),
    "short": _cast(torch.int16),
    "char": _cast(torch.int8),
    "byte": _cast(torch.uint8),
    "cpu": lambda rt, a, k: _to(rt, (a[0], "cpu"), {}),
    "cuda": lambda rt, a, k: _to(rt, (a[0], "cuda"), {}),
    "item": _method("item"),
    "tolist": _method("tolist"),
    "numpy": _method("numpy"),
    "__array__": _method("__array__"),
    "__bool__": _method("__bool__"),
    "__float__": _method("__float__"),
    "__int__": _method("__int__"),
    "__index__": _method("__index__"),
    "__len__": _method("__len__"),
    "__repr__": _method("__repr__"),
    "__format__": _method("__format__"),
    "__contains__": _method("__contains__"),
    "__iter__": _method("__iter__"),
    "is_floating_point": lambda rt, a, k: a[0].dtype.is_floating_point,
    "is_complex": lambda rt, a, k: a[0].dtype.is_complex,
    "is_contiguous": lambda rt, a, k: True,
    "is_tensor": lambda rt, a, k: True,
    "get_device": lambda rt, a, k: -1 if a[0].device.type == "cpu" else a[0].device.index,
    "element_size": lambda rt, a, k: a[0].dtype.itemsize,
    "is_same_size": lambda rt, a, k: a[0].shape == a[1].shape,
    "is_inference": lambda rt, a, k: False,
    "is_signed": lambda rt, a, k: a[0].dtype.is_signed,
    "requires_grad": lambda rt, a, k: a[0].requires_grad,
    "where": _where,
    "requires_grad.__get__": _same,
    "is_shared": lambda rt, a, k: False,
    "is_pinned": lambda rt, a, k: False,
    "is_conj": lambda rt, a, k: False,
    "is_neg": lambda rt, a, k: False,
    "__deepcopy__": _method("__deepcopy__"),
}
