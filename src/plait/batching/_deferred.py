"""Calls of torch.nn's known modules pass by here first while lanes run; what such a module must not keep."""

from __future__ import annotations

import dis
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait.batching._cells import INSIDE, PURE, call_module
from plait.batching._core_choice import FastCall
from plait.batching._current import PER_BATCH, local
from plait.batching._lazy import BatchError, Lazy
from plait.batching._reads import check_reads
from plait.batching._stand_ins import stand_ins
from plait.batching.kernels.modules import RAGGED_MODULES

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

_CLASSES: frozenset[type] = PURE | {nn.Sequential} | RAGGED_MODULES.keys()
_KNOWN = _CLASSES | INSIDE
_lock = threading.Lock()
_users: Counter[type] = Counter()
_saved: dict[type, Any] = {}


def _defer(classes: Iterable[type]) -> None:
    with _lock:
        for cls in classes:
            if not _users[cls]:
                _saved[cls] = (cls.__dict__.get("__call__"), cls.__dict__.get("__setattr__"))
                if cls in _CLASSES:
                    cls.__call__ = _CALL  # type: ignore[method-assign]
                cls.__setattr__ = _noticed(cls.__setattr__)  # type: ignore[method-assign]
            _users[cls] += 1


def _release(classes: Iterable[type]) -> None:
    with _lock:
        for cls in classes:
            _users[cls] -= 1
            if not _users[cls]:
                for name, before in zip(("__call__", "__setattr__"), _saved.pop(cls)):
                    if before is not None:
                        setattr(cls, name, before)
                    elif name in cls.__dict__:
                        delattr(cls, name)


def _noticed(change: Callable[..., None]) -> Callable[..., None]:
    """`__setattr__` of a class: calls of a module are known by the module, so a change of it while lanes run must be
    noticed. What is new to a module (while it is made, say) is no change."""

    def changed(self: nn.Module, name: str, value: Any) -> None:
        rt: Any = local.rt
        if rt is not None and rt.core is not None and name != "training":
            places = (self.__dict__, *[self.__dict__.get(d, {}) for d in ("_modules", "_parameters", "_buffers")])
            if name == "forward" or any(name in d and d[name] is not value for d in places):
                rt.forget_modules()
        change(self, name, value)

    return changed


@contextmanager
def modules_deferred(rt: LaneRuntime, func: Any) -> Iterator[None]:
    """While a batch runs, calls of torch.nn's known modules pass by here first (lanes only).

    Only the classes of modules that the function reaches get a `__call__`, those that need it most, and those that are
    met on the way (`defer_met`): each costs ten microseconds both ways, because Python then forgets what it has cached
    of the class. On `nn.Module` itself it would cost half a millisecond.
    """
    modules = [m for f in _reachable(func) for m in f.modules() if not isinstance(m, torch.jit.ScriptModule)]
    rt.deferred = {type(m) for m in modules} & _KNOWN | set(RAGGED_MODULES)
    _defer(rt.deferred)
    kept = [(m, dict(m.__dict__), dict(m._buffers), dict(m._parameters)) for m in modules]
    at_hand = _put_at_hand(modules)
    try:
        with stand_ins(rt):
            yield
        _check_state(kept)
        check_reads(rt)
    finally:
        _take_away(at_hand)
        _restore(kept)
        _release(rt.deferred)


def _put_at_hand(modules: list[nn.Module]) -> list[tuple[dict[str, Any], str, nn.Module]]:
    """While lanes run, modules have their children in their own dictionaries too: `self.cell` is found at once, where
    `nn.Module.__getattr__` takes longer than it takes to record the call. (Not parameters: `functional_call` exchanges
    them behind a module's back.)"""
    added = []
    for m in modules:
        for name, child in m._modules.items():
            if child is not None and name not in m.__dict__:
                m.__dict__[name] = child
                added.append((m.__dict__, name, child))
    return added


def _take_away(added: list[tuple[dict[str, Any], str, nn.Module]]) -> None:
    for d, name, child in added:
        if d.get(name) is child:
            del d[name]


def defer_met(rt: LaneRuntime) -> None:
    """A call that is new came out of a module that nobody knew of: from now on its class is deferred too."""
    frame: Any = sys._getframe(1)
    for _ in range(12):
        if frame.f_code.co_name == "forward":
            cls = type(frame.f_locals.get("self"))
            if cls in _KNOWN and cls not in rt.deferred:
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
                    return name, x.lane % PER_BATCH
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


def _replaced(m: nn.Module, parameters: dict[str, Any]) -> list[str]:
    """The parameters that are others now."""
    return [name for name, p in parameters.items() if p is not None and m._parameters.get(name) is not p]


def _check_state(kept: list[Any]) -> None:
    """A module that keeps an example's value would hand it to the next example."""
    for m, _, _, parameters in kept:
        for name in _replaced(m, parameters):
            raise BatchError(
                f"the function replaces `{name}` of {type(m).__name__} ({_stored_at(m, name)}a parameter that all "
                "examples share); pass it on as an argument, or use torch.func.functional_call"
            )
        found = _kept_lazy(m)
        if found is not None:
            name, lane = found
            raise BatchError(
                f"the function keeps a value of one example in `{name}` of {type(m).__name__} ({_stored_at(m, name)}"
                f"example {lane}), which all examples share; pass it on as an argument or a result instead"
            )


def _restore(kept: list[Any]) -> None:
    for m, attributes, buffers, parameters in kept:
        for name in _replaced(m, parameters):
            m._parameters[name] = parameters[name]
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
        return (_saved.get(type(self), (None,))[0] or _ORIGINAL)(self, *args, **kwargs)
    if not kwargs:
        res = rt.core.call(self, self.training, args)
        if res is not NotImplemented:
            return res
    return call_module(rt, self, args, kwargs, _ORIGINAL)


_CALL = FastCall(_call)
