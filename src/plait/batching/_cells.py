"""Whole calls as one waiting node: functions marked with `plait.cell`, and modules of torch.nn that are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait import _torch as private
from plait.batching._build import build_call
from plait.batching._call import Call
from plait.batching._core_choice import CellBase
from plait.batching._current import local
from plait.batching._exchanged import weights_of
from plait.batching._known import describe
from plait.batching._lazy import BatchError, Lazy
from plait.batching._marks import INPUT
from plait.batching._program import NoRule
from plait.batching._reads import note_reads
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

    Straight-line: no `if` or `while` on values, no `.item()`. Pure: it changes nothing outside of itself, and what it
    reads besides its arguments stays as it is while a batch runs.

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
    if rt.exchanges:
        key += weights_of(rt, owner if owner is not None else key_of)
    if rt.changes:
        key.append(rt.changes)
    frozen = tuple(key)
    entry = rt.entries.get(frozen)
    if entry is None:
        label = getattr(key_of, "__name__", None) or type(key_of).__name__
        try:
            entry = build_call(
                label,
                Call(rt, lambda t, a, k: func(*a, **k), args, kwargs, ins, frozenset()),
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
        if strict:
            note_reads(rt, label, key_of, owner, args)
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
