"""Whole calls as one waiting node: functions marked with `plait.cell`, and modules of torch.nn that are known."""
from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from plait.batching import _torch_private as private
from plait.batching._build import build_call, fast_key
from plait.batching._current import local
from plait.batching._lazy import INPUT, BatchError, Const, Lazy
from plait.batching._program import NoRule
from plait.batching._trace import Abort, CellError
from plait.batching.kernels.modules import RAGGED_MODULES

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

PURE: frozenset[type] = frozenset(getattr(nn, n) for n in (
    "Linear Bilinear RNNCell LSTMCell GRUCell LayerNorm GroupNorm RMSNorm Conv1d Conv2d Conv3d ConvTranspose1d "
    "ConvTranspose2d MaxPool1d MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d "
    "ReLU Tanh Sigmoid GELU ELU SELU CELU SiLU Mish Softplus Softsign LeakyReLU LogSigmoid Hardtanh Hardswish Hardsigmoid "
    "ReLU6 Softmax LogSoftmax Softmin Embedding CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss "
    "BCEWithLogitsLoss PReLU_none CosineSimilarity").split() if hasattr(nn, n))
INSIDE: frozenset[type] = PURE | {nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout}


def whole(m: nn.Module, inside: bool = False) -> bool:
    """Whether a call of `m` may wait as one node: torch.nn's own class, pure, without hooks."""
    if (m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks or "forward" in m.__dict__
            or nn.modules.module._has_any_global_hook()):
        return False
    t = type(m)
    if t is nn.Sequential:
        return len(m) > 0 and all(whole(c, True) for c in m)
    if t is nn.Dropout and m.training and m.p > 0:
        return False
    if t is nn.Embedding and (m.max_norm is not None or m.scale_grad_by_freq or m.sparse):
        return False
    return t in (INSIDE if inside else PURE)


class Cell:
    """A function that is straight-line and pure: any code of that kind becomes one node, run once per group."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.method = False                                   # defined in a class: the first argument is `self`
        functools.update_wrapper(self, func, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rt: Any = local.rt
        if rt is None or rt.core is None:
            return self.func(*args, **kwargs)
        if not kwargs:
            method = self.method
            res = rt.core.call(self, args[0].training if method and isinstance(args[0], nn.Module) else None, args, method)
            if res is not NotImplemented:
                return res
        if self.method:
            obj = args[0]
            rt.keep.append(obj)
            flag = obj.training if isinstance(obj, nn.Module) else None
            return call_cell(rt, self, functools.partial(self.func, obj), args[1:], kwargs, True, flag, obj)
        return call_cell(rt, self, self.func, args, kwargs, True)

    def __set_name__(self, owner: type, name: str) -> None:
        self.method = True

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)


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
    if isinstance(func, nn.Module) or (isinstance(func, type) and issubclass(func, nn.Module)):
        func._plait_cell = True  # type: ignore[assignment, union-attr]
        return func
    return Cell(func)


def call_cell(rt: LaneRuntime, key_of: Any, func: Callable[..., Any], args: Any, kwargs: Any, strict: bool,
              flag: Any = None, owner: Any = None) -> Any:
    key: list[Any] = [key_of, flag, torch.is_grad_enabled(), private.any_autocast(), "slow", id(owner)]
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
            entry = build_call(rt, label, lambda t, a, k: func(*a, **k), args, kwargs, ins, frozenset(), strict)
        except CellError as e:
            if not strict:
                raise
            code = getattr(getattr(key_of, "func", func), "__code__", None)
            at = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
            raise BatchError(f"the cell {label!r}{at} {e}; example {lane}") from None
        except Abort:
            raise BatchError(f"the cell {label!r} cannot be traced; remove @plait.cell from it") from None
        rt.entries[frozen] = entry
    fast = _fast_key(rt, key_of, flag, args, kwargs, owner)
    if fast is not None:
        rt.entries[fast] = entry
    return rt.record(entry, ins)


def _fast_key(rt: LaneRuntime, key_of: Any, flag: Any, args: Any, kwargs: Any, owner: Any) -> Any:
    """The key under which the core finds this call the next time, if it is of the kind that the core understands."""
    return None if kwargs else fast_key(key_of, flag, args, owner)


def call_module(rt: LaneRuntime, m: nn.Module, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
    kind = rt.module_kinds.get(m)
    if kind is None:
        if getattr(m, "_plait_cell", False):
            kind = "cell"
        elif type(m) in RAGGED_MODULES and whole_ragged(m):
            kind = "ragged"
        else:
            kind = "whole" if whole(m) else "open"
        rt.module_kinds[m] = kind
    if kind == "open" or getattr(m, "inplace", False):
        return original(m, *args, **kwargs)
    if kind == "ragged":
        res = RAGGED_MODULES[type(m)](rt, m, args, kwargs)
        return original(m, *args, **kwargs) if res is NotImplemented else res
    if kind == "cell":
        return call_cell(rt, m, functools.partial(original, m), args, kwargs, True, m.training)
    try:
        return call_cell(rt, m, functools.partial(original, m), args, kwargs, False, m.training)
    except (NoRule, CellError, Abort):
        rt.module_kinds[m] = "open"
        return original(m, *args, **kwargs)


def whole_ragged(m: nn.Module) -> bool:
    return not any(c._forward_hooks or c._forward_pre_hooks or c._backward_hooks or c._backward_pre_hooks
                   or "forward" in c.__dict__ for c in m.modules()) and not nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]


_lock = threading.Lock()
_users = 0
_saved: list[Any] = []


@contextmanager
def modules_deferred() -> Iterator[None]:
    """While a batch runs, calls of modules and writes to their attributes pass by here first (lanes only)."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _saved[:] = [nn.Module.__call__, nn.Module.__setattr__]
            nn.Module.__call__ = _call(nn.Module.__call__)  # type: ignore[assignment, method-assign]
            nn.Module.__setattr__ = _setattr(nn.Module.__setattr__)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                nn.Module.__call__, nn.Module.__setattr__ = _saved  # type: ignore[method-assign]
                _saved.clear()


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        rt: Any = local.rt
        if rt is None or rt.core is None:
            return original(self, *args, **kwargs)
        if not kwargs:
            res = rt.core.call(self, self.training, args)
            if res is not NotImplemented:
                return res
        return call_module(rt, self, args, kwargs, original)
    return __call__


def _setattr(original: Callable[..., Any]) -> Callable[..., None]:
    def __setattr__(self: nn.Module, name: str, value: Any) -> None:
        if local.rt is not None and isinstance(value, Tensor) and not (
                isinstance(value, nn.Parameter) and name not in self.__dict__.get("_parameters", {})):
            from plait.batching._dispatch import refuse
            refuse(f"`self.{name} = ` on a {type(self).__name__} that all examples share",
                   "each example would overwrite it for the others; pass the value on as an argument or a result")
        original(self, name, value)
    return __setattr__
