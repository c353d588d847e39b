"""Where a call on lazy tensors goes: tensor views, writes in place, host reads, random draws, and all pure ops."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._core_choice import NATIVE, FastCall, install
from plait.batching._current import Runtime, local
from plait.batching._lazy import Lazy, _call, runtime
from plait.batching._marks import Const
from plait.batching._names import (
    ALONE,
    CANON,
    FACTORIES,
    HOST,
    LIKE,
    NEW,
    RANDOM,
    REFUSED,
    RENAMED,
    SWAPPED,
    TRAINS,
    VIEWS,
    function_of,
)
from plait.batching._program import NoRule
from plait.batching._shared import Args, Kwargs, has_lazy, plain, unwrap
from plait.batching._site import OURS, refuse, site_key
from plait.batching._special import BY_NAME, Special
from plait.batching._views import view
from plait.batching._writes import write

INNER = frozenset({"self_attention"})  # calls of ours, whose callers have another form to try
NO_SHAPES = "PyTorch cannot tell the shape of its result without the numbers"


def torch_function(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Entry for everything that reaches PyTorch while a lane or a trace runs."""
    rt = local.rt
    if rt is None:
        if has_lazy(args) or has_lazy(kwargs):
            runtime()
        return func(*unwrap(args), **unwrap(kwargs))
    name = CANON.get(func)
    if name is None:
        if isinstance(func, private.ScriptMethod) and has_lazy(args):
            refuse("a scripted or traced module inside plait.batch", "call the module that it was made of")
        if isinstance(func, private.BY_PYBIND):
            with rt.unpaused(getattr(func, "__name__", "a scripted function")):
                return call(func, args, kwargs)
        inner = getattr(func, "__name__", "")
        if inner in ("__get__", "__set__", "__delete__"):
            return _attribute(func, inner, args)
        return call(func, args, kwargs)
    return call(name, args, kwargs, func)


def _attribute(func: Any, kind: str, args: Args) -> Any:
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if args and type(args[0]) is Lazy:
        if kind == "__get__":
            return getattr(args[0], name)
        setattr(args[0], name, *args[1:])
        return None
    if kind == "__set__" and name not in ("grad", "requires_grad"):
        refuse(f"`.{name} = ` on a tensor that all examples share", "do it outside of plait.batch")
    if kind == "__get__" and name in ("T", "mT", "H", "mH", "data", "real", "imag"):
        return plain(runtime(), "detach" if name == "data" else name, func, args, {})
    return func(*args)


def unsupported_attribute(x: Lazy, name: str) -> Any:
    if name in ("H", "mH", "real"):
        return call(name, (x,), {})
    if name in (
        "itemsize",
        "nbytes",
        "is_cpu",
        "output_nr",
        "_version",
        "is_vulkan",
        "is_ipu",
        "is_maia",
        "is_mtia",
    ):
        return getattr(torch.empty(x.meta.shape, dtype=x.meta.dtype), name)
    return refuse(f"`.{name}` of a value inside plait.batch", "it has no such attribute before it is computed")


def call(name: Any, args: Args, kwargs: Kwargs, func: Any = None) -> Any:
    """One call on lazy or shared tensors, by canonical name (or the function itself where it has none)."""
    rt = runtime()
    if type(name) is not str:
        return _opaque(rt, name, args, kwargs)
    name = RENAMED.get(name, name)
    if name in SWAPPED:
        name, args = SWAPPED[name], (args[1], args[0], *args[2:])
    special = SPECIAL.get(name)
    if special is not None:
        return special(rt, args, kwargs)
    if name in TRAINS and name != "rrelu" and _deterministic(name, args, kwargs):
        return args[0]
    if name in RANDOM and not _deterministic(name, args, kwargs):
        return rt.random(name, func, args, kwargs)
    if "out" in kwargs and kwargs["out"] is not None:
        return _out(rt, name, args, kwargs, func)
    if name[-1] == "_" and name[-2] != "_" and args and isinstance(args[0], Tensor):
        return _inplace(rt, name, args, kwargs, func)
    if not (has_lazy(args) or has_lazy(kwargs)):
        return plain(rt, name, func, args, kwargs)
    if name in REFUSED:
        refuse(f"`{name}` inside plait.batch", REFUSED[name])
    if name in ALONE or name in FACTORIES:
        return rt.alone(name, func or function_of(name), args, kwargs)
    if name in HOST:
        return function_of(name)(*rt.reals(args), **rt.reals(kwargs))
    if name in VIEWS:
        return view(rt, name, args, kwargs)
    return _emit(rt, name, func, args, kwargs)


def _emit(rt: Runtime, name: Any, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """The call as a waiting node; for the example alone where nothing tells what it gives before it ran."""
    try:
        return rt.emit(name, args, kwargs)
    except (NotImplementedError, NoRule) as e:
        cause = e if isinstance(e, NotImplementedError) else e.__cause__
        if rt.tracing and not isinstance(cause, NotImplementedError):
            raise cause or e from None  # a wrong call in a cell; or whoever traces has another form to try
        if func is None and name in INNER:
            raise
        word = name if type(name) is str else getattr(name, "__name__", "call")
        return rt.alone(word, func or function_of(name), args, kwargs, NO_SHAPES)


def _deterministic(name: str, args: Args, kwargs: Kwargs) -> bool:
    k = TRAINS.get(name)
    if k is None:
        return False
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    t = args[k] if len(args) > k else kwargs.get("training", name != "rrelu")
    return not t or (p == 0 and name != "rrelu")


def _opaque(rt: Runtime, func: Any, args: Args, kwargs: Kwargs) -> Any:
    n = getattr(func, "__name__", "")
    if not (has_lazy(args) or has_lazy(kwargs)):
        return plain(rt, n, func, args, kwargs)
    if func is torch.cond or n in ("cond", "while_loop"):
        refuse(
            f"torch.{n} inside plait.batch",
            "write an ordinary Python `if` or `while`; every example takes its own arm",
        )
    return _emit(rt, func, func, args, kwargs)


# ---------------------------------------------------------------------- calls that are another call
def _out(rt: Runtime, name: str, args: Args, kwargs: Kwargs, func: Any) -> Any:
    out = kwargs["out"]
    rest = {k: v for k, v in kwargs.items() if k != "out"}
    if type(out) is not Lazy:
        refuse(f"`{name}(out=...)` into a tensor that all examples share", "use the returned value instead")
    if not (has_lazy(args) or has_lazy(rest)):
        res = plain(rt, name, func, args, rest)
    else:
        res = call(name, args, rest, func)
    write(rt, out, res)
    return out


def _inplace(rt: Runtime, name: str, args: Args, kwargs: Kwargs, func: Any) -> Any:
    x = args[0]
    if type(x) is not Lazy:
        if name in ("requires_grad_", "share_memory_", "pin_memory_"):
            refuse(f"`{name}` on a tensor that all examples share", "do it outside of plait.batch")
        refuse(
            f"`{name}` writes to {rt.name_of(x)}",
            "every example would change it for the others; return the new value instead, or clone the tensor first",
        )
    if name in REFUSED:
        refuse(f"`{name}` inside plait.batch", REFUSED[name])
    base = name[:-1]
    if base == "zero":
        new: Any = call("zeros_like", (x,), {})
    elif base == "fill" or base == "copy":
        new = args[1]
    elif base == "index_put":
        new = rt.emit("index_put", args, kwargs)
    else:
        new = call(base, args, kwargs)
    if isinstance(new, Tensor) and base not in ("copy", "fill") and tuple(new.shape) != tuple(x.meta.shape):
        if base in ("unsqueeze", "squeeze", "transpose", "t", "swapaxes", "swapdims"):
            refuse(f"`{name}` on a value inside plait.batch", f"write x = x.{base}(...)")
        raise RuntimeError(
            f"output with shape {list(x.meta.shape)} doesn't match the broadcast shape {list(new.shape)}"
        )
    if isinstance(new, Tensor) and not torch.can_cast(new.dtype, x.meta.dtype):
        raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {x.meta.dtype}")
    write(rt, x, new)
    return x


def _new(kind: str) -> Special:
    def make(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x, rest = args[0], args[1:]
        kwargs = {k: v for k, v in kwargs.items() if k not in ("memory_format",)}
        kwargs.setdefault("dtype", x.dtype)
        if kwargs["dtype"] is None:
            kwargs["dtype"] = x.dtype
        if kwargs.get("device") is None:
            kwargs["device"] = x.device
        return call(kind, rest, kwargs, getattr(torch, kind))

    return make


def _like(kind: str) -> Special:
    def make(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        if type(x) is not Lazy:
            return plain(rt, f"{kind}_like", getattr(torch, f"{kind}_like"), args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k != "memory_format"}
        return _new(kind)(rt, (x, tuple(x.meta.shape), *args[1:]), kwargs)

    return make


SPECIAL: dict[str, Special] = {
    **BY_NAME,
    **{k: _new(v) for k, v in NEW.items()},
    **{k: _like(v) for k, v in LIKE.items()},
}

_SLOW = frozenset(SPECIAL) | VIEWS | RANDOM | HOST | ALONE | frozenset(REFUSED) | FACTORIES
FAST: dict[Any, Any] = {
    f: n
    for f, n in CANON.items()
    if n not in _SLOW and n not in SWAPPED and not n.endswith("_") and not n.startswith("_")
}
# A factory's result depends on the default dtype as well.
FAST.update({f: (n, torch.get_default_dtype) for f, n in CANON.items() if n in FACTORIES})

install(
    FAST, torch_function, OURS, site_key, torch.overrides.handle_torch_function, Const,
    private.are_modes_on, torch.set_autocast_enabled, private.words_of(private.NOWHERE),
)  # fmt: skip


def _add_methods() -> None:
    """`x.sum()` and its like as methods that the compiled core tries first, in place of `Lazy.__getattr__`."""
    for f, name in FAST.items():
        own = getattr(f, "__name__", "")
        if type(name) is str and own[:1] != "_" and getattr(Tensor, own, None) is f and not hasattr(Lazy, own):
            setattr(Lazy, own, FastCall(partial(_call, own), name))


if NATIVE:
    _add_methods()
