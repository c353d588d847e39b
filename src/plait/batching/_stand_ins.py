"""What stands in the place of functions of PyTorch while lanes run, and goes when the last batch has ended.

Some of them take a value for a tensor without asking anybody (C++ that unpacks it), some change what is known of a
module, and some only take long to find out who wants to see a call.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from plait import _torch as private
from plait.batching._core_choice import handle, straight
from plait.batching._current import local
from plait.batching._exchanged import exchange
from plait.batching._shared import has_lazy, plain
from plait.batching._site import refuse

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


# ---------------------------------------------------------------------- what must be noticed
def _hooked(handle: Any, *args: Any, **kwargs: Any) -> None:
    """In place of what every registration of a hook calls."""
    rt: Any = local.rt
    if rt is not None and rt.core is not None:
        rt.forget_modules()
    _HOOKED(handle, *args, **kwargs)


def _old_autocast(on: bool) -> None:
    """In place of a function that the compiled core cannot notice."""
    rt: Any = local.rt
    if rt is not None and rt.core is not None:
        rt.core.cast = True
    _OLD_AUTOCAST(on)


def _save_inputs(frame: Any, *args: Any) -> None:
    """In place of what a checkpoint keeps to compute its part again: values are all kept until the batch has ended."""
    if has_lazy(args):
        frame.saved_args = list(args)
    else:
        _SAVE_INPUTS(frame, *args)


def _refused(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A transform works on tensors in C++, where a value has no numbers yet."""

    def transform(*args: Any, **kwargs: Any) -> Any:
        if local.rt is not None and private.are_modes_on():
            refuse(f"torch.func.{name} inside plait.batch", "transform what plait.batch returns, outside of it")
        return original(*args, **kwargs)

    return transform


_HOOKED: Any = getattr(*private.HOOK)
_OLD_AUTOCAST: Any = getattr(*private.OLD_AUTOCAST)
_SAVE_INPUTS: Any = getattr(*private.CHECKPOINT)
_PLACES: list[tuple[Any, str, Any]] = [
    *((space, private.HANDLE, handle) for space in private.PYTHON_API),
    (*private.EXCHANGE, exchange),
    (*private.HOOK, _hooked),
    (*private.OLD_AUTOCAST, _old_autocast),
    (*private.CHECKPOINT, _save_inputs),
    *((space, name, _refused(what, getattr(space, name))) for what, space, name in private.TRANSFORMS),
]


# ---------------------------------------------------------------------- torch.autograd.Function
class Applied:
    """A person's `torch.autograd.Function` as a function with a name."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.__name__ = cls.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.cls.apply(*args, **kwargs)


applied = cache(Applied)  # the same for the same function, since calls are known by it


def apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In place of `Function.apply`: an ordinary call on values of examples, whose derivative is the function's own."""
    from plait.batching._dispatch import call

    rt = local.rt
    if rt is None or not private.are_modes_on():
        return _apply(cls, *args, **kwargs)
    if cls is private.CheckpointFunction:
        return args[0](*args[2:])  # nothing is kept here that could be computed again
    function = applied(cls)
    if has_lazy(args) or has_lazy(kwargs):
        return call(function, args, kwargs)
    return plain(rt, "", function, args, kwargs)


def _stand_in() -> CodeType:
    """The code for `Function.apply`. The code is exchanged, not the attribute: `square = Square.apply`, kept since the
    module was imported, goes the same way."""
    __class__ = None

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        __class__  # noqa: B018  # one variable from outside, as the original has
        from plait.batching._stand_ins import apply

        return apply(cls, args, kwargs)

    return apply.__code__


_FUNCTION: Any = inspect.unwrap(torch.autograd.Function.apply.__func__)  # type: ignore[attr-defined]  # a recording wraps it
_CODE: CodeType = _FUNCTION.__code__
_apply = FunctionType(_CODE, _FUNCTION.__globals__, "apply", _FUNCTION.__defaults__, _FUNCTION.__closure__)


# ---------------------------------------------------------------------- in and out
_lock = threading.Lock()
_running: list[Any] = []  # batches, and before them what they found


@contextmanager
def stand_ins(rt: LaneRuntime) -> Iterator[None]:
    with _lock:
        if not _running:
            _running.append(_put())
        _running.append(rt)
    try:
        yield
    finally:
        with _lock:
            _running.remove(rt)
            if len(_running) == 1:
                _running.pop().close()


def _put() -> ExitStack:
    """Puts everything in its place; closing what this returns takes it away."""
    stack = ExitStack()
    for space, name, own in _PLACES:
        stack.callback(setattr, space, name, getattr(space, name))
        setattr(space, name, own)
    if len(_CODE.co_freevars) == 1:
        stack.callback(setattr, _FUNCTION, "__code__", _CODE)
        _FUNCTION.__code__ = _stand_in()
    stack.callback(straight, False)
    straight(True)
    if "torch._dynamo" in sys.modules:  # what a person has compiled runs as it was written, one example at a time
        stack.enter_context(torch.compiler.set_stance("force_eager"))
    return stack
