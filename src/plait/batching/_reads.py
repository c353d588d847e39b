"""What a cell reads besides its arguments, which must stay as it is while a batch runs: a call is known by the cell and
its arguments, and its code runs once."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from plait.batching._lazy import BatchError

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

MISSING = object()
_SCALARS = (int, float, complex, bool, str, bytes, type(None))


@cache
def _attributes(code: CodeType) -> tuple[str, ...]:
    """The attributes of its first argument that a function's code names."""
    if not code.co_argcount:
        return ()
    found, first = [], False
    for i in dis.get_instructions(code):
        if first and i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            found.append(str(i.argval))
        last = i.argval[-1] if isinstance(i.argval, tuple) and i.argval else i.argval
        first = i.opname.startswith("LOAD_FAST") and last == code.co_varnames[0]
    return tuple(found)


@cache
def _globals(code: CodeType) -> tuple[str, ...]:
    return tuple(str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")


def _read(f: Any, owner: Any, seen: set[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What the function names outside of itself, and how to look at it; helpers in the same module are followed."""
    f = inspect.unwrap(f)
    if not isinstance(f, FunctionType) or f.__code__ in seen:
        return
    seen.add(f.__code__)
    home, code = f.__globals__, f.__code__
    for name in _globals(code):
        value = home.get(name, MISSING)
        if isinstance(value, FunctionType):
            if value.__globals__ is home:
                yield from _read(value, None, seen)
        elif value is not MISSING and not isinstance(value, type):
            yield f"the variable `{name}`", lambda name=name: home.get(name, MISSING)  # type: ignore[misc]
    for name, c in zip(code.co_freevars, f.__closure__ or ()):
        yield f"the variable `{name}`", lambda c=c: _content(c)  # type: ignore[misc]
    if owner is None:
        return
    for name in _attributes(code):
        if name == "training":  # part of what the call is known by
            continue
        own = next((c.__dict__[name] for c in type(owner).__mro__ if name in c.__dict__), None)
        if isinstance(own, FunctionType):
            yield from _read(own, owner, seen)
        else:
            yield f"`{name}` of {type(owner).__name__}", lambda name=name: _own(owner, name)  # type: ignore[misc]


def _content(c: Any) -> Any:
    try:
        return c.cell_contents
    except ValueError:
        return MISSING


def _own(owner: Any, name: str) -> Any:
    """An attribute, or the child of a module; parameters and buffers have checks of their own."""
    found = vars(owner).get(name, MISSING) if hasattr(owner, "__dict__") else MISSING
    return owner._modules.get(name, found) if isinstance(owner, nn.Module) else found


def note_reads(rt: LaneRuntime, label: str, key_of: Any, owner: Any, args: Any) -> None:
    """Called once a cell has been traced."""
    f = inspect.unwrap(key_of.forward if isinstance(key_of, nn.Module) else key_of.func)
    owner = key_of if isinstance(key_of, nn.Module) else owner
    code = getattr(f, "__code__", None)
    if code is None or (code, id(owner)) in rt.reads:
        return
    where = f" ({code.co_filename}:{code.co_firstlineno})"
    found = list(_read(getattr(f, "__func__", f), owner, set()))
    for a in args:
        if not isinstance(a, (*_SCALARS, Tensor, tuple, list, dict, nn.Module)) and hasattr(a, "__dict__"):
            found += [
                (f"`{n}` of its argument of type {type(a).__name__}", lambda a=a, n=n: vars(a).get(n, MISSING))  # type: ignore[misc]
                for n in vars(a)
            ]
    rt.reads[code, id(owner)] = (label, where, [(text, look, look()) for text, look in found])


def check_reads(rt: LaneRuntime) -> None:
    for label, where, found in rt.reads.values():
        for text, look, before in found:
            now = look()
            if now is not before and not (type(now) is type(before) and type(now) in _SCALARS and now == before):
                raise BatchError(
                    f"the cell {label!r}{where} reads {text}, which changes while the batch runs, but its code runs "
                    "once for all calls; pass the value in as an argument"
                )
