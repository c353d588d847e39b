"""Whole calls as one waiting node: functions marked with `plait.cell`, and modules of torch.nn that are known."""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait import _torch as private
from plait.batching._build import build_call
from plait.batching._core_choice import CellBase, ModuleCall
from plait.batching._current import local
from plait.batching._known import describe
from plait.batching._lazy import BatchError, Lazy
from plait.batching._marks import INPUT
from plait.batching._program import NoRule
from plait.batching._trace import Abort, CellError
from plait.batching.kernels.modules import RAGGED_MODULES

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

PURE: frozenset[type] = frozenset(
    getattr(nn, n)
    for n in [
        "Linear",
        "Bilinear",
        "RNNCell",
        "LSTMCell",
        "GRUCell",
        "LayerNorm",
        "GroupNorm",
        "RMSNorm",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "MaxPool1d",
        "MaxPool2d",
        "AvgPool1d",
        "AvgPool2d",
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveMaxPool2d",
        "ReLU",
        "Tanh",
        "Sigmoid",
        "GELU",
        "ELU",
        "SELU",
        "CELU",
        "SiLU",
        "Mish",
        "Softplus",
        "Softsign",
        "LeakyReLU",
        "LogSigmoid",
        "Hardtanh",
        "Hardswish",
        "Hardsigmoid",
        "ReLU6",
        "Softmax",
        "LogSoftmax",
        "Softmin",
        "Embedding",
        "CrossEntropyLoss",
        "NLLLoss",
        "MSELoss",
        "L1Loss",
        "SmoothL1Loss",
        "HuberLoss",
        "BCELoss",
        "BCEWithLogitsLoss",
        "PReLU_none",
        "CosineSimilarity",
    ]
    if hasattr(nn, n)
)
INSIDE: frozenset[type] = PURE | {nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout}


def whole(m: nn.Module, inside: bool = False) -> bool:
    """Whether a call of `m` may wait as one node: torch.nn's own class, pure, without hooks."""
    if (
        m._forward_hooks
        or m._forward_pre_hooks
        or m._backward_hooks
        or m._backward_pre_hooks
        or "forward" in m.__dict__
        or nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
    ):
        return False
    t = type(m)
    if t is nn.Sequential:
        return len(m) > 0 and all(whole(c, True) for c in m)  # type: ignore[arg-type, attr-defined]
    if t is nn.Dropout and m.training and m.p > 0:  # type: ignore[operator]
        return False
    if t is nn.Embedding and (m.max_norm is not None or m.scale_grad_by_freq or m.sparse):
        return False
    return t in (INSIDE if inside else PURE)


def any_length(m: Any) -> bool:
    """False for modules whose constants may be meant for one length."""
    return not isinstance(m, nn.Module) or not any(type(c) in (nn.Flatten, nn.Unflatten) for c in m.modules())


class Cell(CellBase):
    """A function that is straight-line and pure: any code of that kind becomes one node, run once per group."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        functools.update_wrapper(self, func, updated=())

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        rt: Any = local.rt
        if rt is None or rt.core is None:
            return self.func(*args, **kwargs)
        if not kwargs:
            res = rt.core.call(self, None, args, self.method)
            if res is not NotImplemented:
                return res
        if self.method:
            obj = args[0]
            rt.keep.append(obj)
            flag = getattr(obj, "training", None)
            return call_cell(rt, self, functools.partial(self.func, obj), args[1:], kwargs, True, flag, obj)
        return call_cell(rt, self, self.func, args, kwargs, True)

    def __set_name__(self, owner: type, name: str) -> None:
        self.method = True


def cell(func: Any) -> Any:
    """Marks a function (or an `nn.Module`, or a class of them) as straight-line and pure, so that a call is one node.

    Straight-line: no `if` or `while` on values, no `.item()`. Pure: it changes nothing outside of itself.

    >>> import torch, plait
    >>> W = torch.eye(2)
    >>> @plait.cell
    ... def step(x, h):
    ...     return torch.tanh(x @ W + h)
    >>> step(torch.zeros(2), torch.zeros(2))      # outside of plait.batch: the function itself
    tensor([0., 0.])
    """
    if isinstance(func, nn.Module):
        func.forward = _forward_as_cell(func.forward, func)
        return func
    if isinstance(func, type) and issubclass(func, nn.Module):
        func.forward = _forward_as_cell(func.forward, None)
        return func
    return Cell(func)


def call_cell(
    rt: LaneRuntime,
    key_of: Any,
    func: Callable[..., Any],
    args: Any,
    kwargs: Any,
    strict: bool,
    flag: Any = None,
    owner: Any = None,
) -> Any:
    key: list[Any] = [key_of, flag, torch.is_grad_enabled(), private.autocast_state(), "slow", id(owner)]
    ins: list[Lazy] = []
    lane = rt.lane
    for a in args:
        if type(a) is Lazy and a.lane == lane:
            e = a.extra
            if e is None or e is INPUT or (type(e) is Lazy and (e.extra is INPUT or e.extra is None)):
                key.append(a.meta)
                ins.append(a)
                continue
        rt._scan(a, key, ins, False)
    for k, v in kwargs.items():
        key.append(k)
        rt._scan(v, key, ins, True)
    if not ins:
        return func(*args, **kwargs)
    frozen = tuple(key)
    entry = rt.entries.get(frozen)
    if entry is None:
        label = getattr(key_of, "__name__", None) or type(key_of).__name__
        try:
            entry = build_call(
                rt,
                label,
                lambda t, a, k: func(*a, **k),
                args,
                kwargs,
                ins,
                frozenset(),
                frozen if any_length(key_of) else None,
                strict,
                None if strict else describe(rt, key_of, args, kwargs, frozenset()),
            )
        except CellError as e:
            if not strict:
                raise
            code = getattr(getattr(key_of, "func", func), "__code__", None)
            at = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
            raise BatchError(f"the cell {label!r}{at} {e}; example {lane}") from None
        except Abort:
            raise BatchError(f"the cell {label!r} cannot be traced; remove @plait.cell from it") from None
        rt.entries[frozen] = entry
    rt.core.remember(key_of, flag, owner, args, kwargs, ins, entry)
    return rt.record(entry, ins)


def call_module(rt: LaneRuntime, m: nn.Module, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
    kind = rt.module_kinds.get(m)
    if kind is None:
        kind = "ragged" if type(m) in RAGGED_MODULES and whole_ragged(m) else "whole" if whole(m) else "open"
        rt.module_kinds[m] = kind
    if kind == "open" or getattr(m, "inplace", False):
        return original(m, *args, **kwargs)
    if kind == "ragged":
        res = RAGGED_MODULES[type(m)](rt, m, args, kwargs)
        return original(m, *args, **kwargs) if res is NotImplemented else res
    try:
        return call_cell(rt, m, functools.partial(original, m), args, kwargs, False, m.training)
    except (NoRule, CellError, Abort):
        rt.module_kinds[m] = "open"
        return original(m, *args, **kwargs)


def whole_ragged(m: nn.Module) -> bool:
    return (
        not any(
            c._forward_hooks
            or c._forward_pre_hooks
            or c._backward_hooks
            or c._backward_pre_hooks
            or "forward" in c.__dict__
            for c in m.modules()
        )
        and not nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
    )


_lock = threading.Lock()
_users: Counter[type] = Counter()
_saved: dict[type, Any] = {}


def _defer(classes: Iterable[type]) -> None:
    with _lock:
        for cls in classes:
            if not _users[cls]:
                _saved[cls] = cls.__dict__.get("__call__")
                cls.__call__ = _CALL  # type: ignore[method-assign]
            _users[cls] += 1


def _release(classes: Iterable[type]) -> None:
    with _lock:
        for cls in classes:
            _users[cls] -= 1
            if not _users[cls]:
                call = _saved.pop(cls)
                if call is None:
                    del cls.__call__
                else:
                    cls.__call__ = call  # type: ignore[method-assign]


@contextmanager
def modules_deferred(rt: LaneRuntime, func: Any) -> Iterator[None]:
    """While a batch runs, calls of torch.nn's known modules pass by here first (lanes only).

    Only the classes of modules that the function reaches get a `__call__`, those that need it most, and those that are
    met on the way (`defer_met`): each costs ten microseconds both ways, because Python then forgets what it has cached
    of the class. On `nn.Module` itself it would cost half a millisecond.
    """
    modules = [m for f in _reachable(func) for m in f.modules()]
    rt.deferred = {type(m) for m in modules} & _CLASSES | set(RAGGED_MODULES)
    _defer(rt.deferred)
    kept = [(m, dict(m.__dict__), dict(m._buffers)) for m in modules]
    try:
        yield
        _check_state(kept)
    finally:
        _restore(kept)
        _release(rt.deferred)


def defer_met(rt: LaneRuntime) -> None:
    """A call that is new came out of a module that nobody knew of: from now on its class is deferred too."""
    frame: Any = sys._getframe(1)
    for _ in range(12):
        if frame.f_code.co_name == "forward":
            cls = type(frame.f_locals.get("self"))
            if cls in _CLASSES and cls not in rt.deferred:
                rt.deferred.add(cls)
                _defer((cls,))
        if frame.f_back is None:
            return
        frame = frame.f_back


def _reachable(func: Any) -> list[nn.Module]:
    from plait.batching._api import _modules

    return _modules(func)


def _kept_lazy(m: nn.Module) -> tuple[str, int] | None:
    """An attribute that holds an example's value, and the example."""
    for d in (m.__dict__, m._buffers):
        for name, v in d.items():
            for x in v if type(v) in (list, tuple) else (v,):  # type: ignore[union-attr]
                if type(x) is Lazy:
                    return name, x.lane
    return None


def _stored_at(m: nn.Module, name: str) -> str:
    """Where the module's own code sets the attribute, as `file:line, `."""
    for f in vars(type(m)).values():
        code = getattr(f, "__code__", None)
        if code is not None and code.co_name != "__init__":
            for i in dis.get_instructions(code):
                if i.opname == "STORE_ATTR" and i.argval == name and i.positions is not None:
                    return f"{code.co_filename}:{i.positions.lineno}, "
    return ""


def _check_state(kept: list[Any]) -> None:
    """A module that keeps an example's value would hand it to the next example."""
    for m, _, _ in kept:
        found = _kept_lazy(m)
        if found is not None:
            name, lane = found
            raise BatchError(
                f"the function keeps a value of one example in `{name}` of {type(m).__name__} ({_stored_at(m, name)}"
                f"example {lane}), which all examples share; pass it on as an argument or a result instead"
            )


def _restore(kept: list[Any]) -> None:
    for m, attributes, buffers in kept:
        if _kept_lazy(m) is not None:
            for d, before in ((m.__dict__, attributes), (m._buffers, buffers)):
                for name in [
                    n
                    for n, v in d.items()
                    if type(v) is Lazy or (type(v) in (list, tuple) and any(type(x) is Lazy for x in v))
                ]:
                    if name in before and type(before[name]) is not Lazy:
                        d[name] = before[name]
                    else:
                        del d[name]


_ORIGINAL: Callable[..., Any] = nn.Module.__call__


def _call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    rt: Any = local.rt
    if rt is None or rt.core is None:
        return (_saved.get(type(self)) or _ORIGINAL)(self, *args, **kwargs)
    if not kwargs:
        res = rt.core.call(self, self.training, args)
        if res is not NotImplemented:
            return res
    return call_module(rt, self, args, kwargs, _ORIGINAL)


_CALL = ModuleCall(_call)


def _forward_as_cell(forward: Callable[..., Any], key_of: Any) -> Callable[..., Any]:
    """A module's `forward` as one node."""

    @functools.wraps(forward)
    def cell_forward(*args: Any, **kwargs: Any) -> Any:
        rt: Any = local.rt
        if rt is None or rt.core is None:
            return forward(*args, **kwargs)
        m = key_of if key_of is not None else args[0]
        rest = args if key_of is not None else args[1:]
        call = forward if key_of is not None else functools.partial(forward, m)
        if not kwargs:
            res = rt.core.call(m, ("cell", m.training), rest)
            if res is not NotImplemented:
                return res
        return call_cell(rt, m, call, rest, kwargs, True, ("cell", m.training))

    return cell_forward


_CLASSES: frozenset[type] = PURE | {nn.Sequential} | RAGGED_MODULES.keys()
