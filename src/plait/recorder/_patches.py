"""What a recording changes in PyTorch while it lasts, and puts back afterwards.

Module calls tell the scope and where an outermost call begins. Scripted modules and the forward of custom Functions
are one opaque node. Optimizers, compiled functions, threads and events that only rules ask about have files of their
own, which use the few things that a patch needs from here.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait._torch import PLAIN_MODULE_CALL, put_back, sequence_number, take_out, transforms_active
from plait.recorder._arguments import flat, tensors_in
from plait.recorder._compiled import CompiledCalls
from plait.recorder._events import function_applied
from plait.recorder._events import install as install_events
from plait.recorder._layers import Layer
from plait.recorder._new_row import Named, new_row, place_result
from plait.recorder._optimizers import Optimizers
from plait.recorder._sites import LIBRARY, MODULE_CALL, UNSEEN
from plait.recorder._threads import watched_thread
from plait.recorder._tracebacks import WALKS, without_ours
from plait.recorder._warnings import relocating

if TYPE_CHECKING:
    from plait.recorder._recorder import Record


class Patches:
    """Installs and removes everything that is not the function mode."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._undo: list[Callable[[], None]] = []
        self.threads_with_work: set[str] = set()
        self.optimizers = Optimizers(record, self)
        self._compiled = CompiledCalls(record, self)

    def install(self) -> None:
        """Change what has to be changed."""
        self.replace(nn.Module, "__call__", self._module_call(nn.Module.__call__))
        self.replace(torch.autograd.Function, "apply", classmethod(self._apply(torch.autograd.Function.apply.__func__)))  # type: ignore[attr-defined]
        self.optimizers.install()
        install_events(self, self._record.tape)
        bootstrap = watched_thread(threading.Thread._bootstrap_inner, self._record, self.threads_with_work)  # type: ignore[attr-defined]
        # Not `run`, which a subclass may have made its own, and which stands in the traceback of its errors.
        self.replace(threading.Thread, "_bootstrap_inner", bootstrap)
        for name in WALKS:
            if hasattr(traceback, name):
                self.replace(traceback, name, without_ours(getattr(traceback, name)))
        self.replace(warnings, "_showwarnmsg", relocating(warnings._showwarnmsg))  # type: ignore[attr-defined]
        self._compiled.install()

    def remove(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Change an attribute for as long as the recording lasts."""
        self._undo.append(Layer(owner, name, value).undo)

    def on_removal(self, then: Callable[[], None]) -> None:
        """What else is to be done when everything is put back."""
        self._undo.append(then)

    def here(self) -> bool:
        """Whether this thread is the one that is recorded."""
        return threading.get_ident() == self._record.recording_thread

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Run something without the mode and with plain module calls: a compiler may look at them."""
        mode = self._record.mode
        self._record.tape.written = True
        above = take_out(mode)
        call, nn.Module.__call__ = nn.Module.__call__, PLAIN_MODULE_CALL  # type: ignore[method-assign]
        try:
            yield
        finally:
            nn.Module.__call__ = call  # type: ignore[method-assign]
            if above is not None and self._record.active:
                put_back(mode, above)

    def quietly(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """What `func` returns, run without the mode."""
        mode = self._record.mode
        self._record.tape.written = True
        above = take_out(mode)
        try:
            return func(*args, **kwargs)
        finally:
            if above is not None and self._record.active:
                put_back(mode, above)

    # -- modules ------------------------------------------------------------------------------------------------

    def _module_call(self, original: Any) -> Any:
        record, thread_of = self._record, threading.get_ident
        scopes, steps, tape = record.tape.scopes, record.steps_keeper, record.tape
        stack, modules = scopes.stack, scopes.modules
        frame_of = sys._getframe

        known_of, sites, codes_of = scopes.known.get, scopes.call_sites, tape.sites.codes.get

        @functools.wraps(original)
        def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if thread_of() != record.recording_thread:
                return original(self, *args, **kwargs)
            known = known_of(id(self))
            if known is None or known[0]() is not self:
                tape.guarded(scopes.of, self)
                known = known_of(id(self))
                if known is None:
                    return original(self, *args, **kwargs)
            if known[2]:
                return opaque(self, args, kwargs)
            caller = frame_of(1)
            if len(stack) == 1 and not tape.backward_depth:
                tape.guarded(steps.call_begins, caller)
            stack.append(known[1])
            modules.append(self)
            # A module called by code of torch (a container) is where that code is.
            sites.append(sites[-1] if codes_of(id(caller.f_code), UNSEEN) is LIBRARY else None)
            try:
                return original(self, *args, **kwargs)
            except Exception as error:
                if len(stack) == 2:
                    record.failures_keeper.module_failed(self, error, tape.calls.site_of(frame_of(1)))
                raise
            finally:
                stack.pop()
                modules.pop()
                sites.pop()

        own: Any = call
        own.__code__ = own.__code__.replace()  # a code object of this recording's own
        tape.sites.codes[id(own.__code__)] = MODULE_CALL

        def opaque(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            name = "compiled" if type(module).__name__ == "OptimizedModule" else "scripted"
            inner = getattr(module, "_orig_mod", module)
            kind = getattr(inner, "original_name", type(inner).__name__)
            return self._opaque_call(f"{name} {kind}", original, (module, *args), kwargs, frame_of(2), True)

        return call

    def _opaque_call(
        self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any, hidden: bool
    ) -> Any:
        """One node for a call whose inside is not looked at; its results are its outputs."""
        tape = self._record.tape
        site = tape.guarded(self._opaque_begins, args, kwargs, frame)
        before = sequence_number()
        if hidden:
            with self.unseen():
                result = func(*args, **kwargs)
        else:
            result = self.quietly(func, *args, **kwargs)
        if self.here() and any(True for _ in flat(result)):
            tape.guarded(self._opaque_ends, name, args, kwargs, result, site, before)
        return result

    def _opaque_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> int | None:
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        site = tape.calls.site_of(frame)
        for _, tensor in tensors_in(args, kwargs):
            tape.entry(tensor)
        return site

    def _opaque_ends(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, site: int | None, before: int
    ) -> None:
        tape = self._record.tape
        here = len(tape.tokens)
        made = new_row(tape, None, Named(name), args, kwargs, result, site, torch.is_grad_enabled(), before)
        place_result(tape, made, here, before, args, kwargs, result)

    def _apply(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.here():
                return original(cls, *args, **kwargs)
            tape, frame = self._record.tape, sys._getframe(1)
            inside = functools.partial(original, cls)
            result = self._opaque_call(cls.__name__, inside, args, kwargs, frame, False)
            if self.here() and not transforms_active():
                tape.guarded(function_applied, tape, cls, args, kwargs, result, frame)
            return result

        return apply
