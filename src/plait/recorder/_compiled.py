"""Compiled functions: one opaque call each, for which the mode leaves; Dynamo would trace our handler."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from plait._torch import COMPILATION_SWITCH, dynamo_if_loaded, sequence_number
from plait.recorder._arguments import tensors_in
from plait.recorder._opaque import OpaqueCall

if TYPE_CHECKING:
    from plait.recorder._patches import Patches
    from plait.recorder._recorder import Record

_NO_CALL = OpaqueCall("compiled function", None, None, (), 0, 0)


class CompiledCalls:
    """Watches the functions that `torch.compile` made."""

    def __init__(self, record: Record, patches: Patches) -> None:
        self._record = record
        self._patches = patches
        self._watched = False

    def install(self) -> None:
        """Change what has to be changed."""
        self._patches.replace(torch, "compile", self._compile(torch.compile))
        self._patches.replace(torch.export, "export", self._tracer(torch.export.export))
        self._patches.replace(torch.fx, "symbolic_trace", self._tracer(torch.fx.symbolic_trace))
        self._watch_dynamo()

    def _compile(self, original: Any) -> Any:
        """The first `torch.compile` of a process loads Dynamo, which then has to be watched."""

        @functools.wraps(original)
        def compile_(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._record.active:
                self._watch_dynamo()
            return result

        return compile_

    def _tracer(self, original: Any) -> Any:
        """A function that traces the program; what it refuses is explained."""
        record = self._record

        @functools.wraps(original)
        def trace(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                if record.active:
                    record.failures_keeper.compiler_failed(error, record.tape.calls.site_of(sys._getframe(1)))
                raise

        return trace

    def _watch_dynamo(self) -> None:
        dynamo = dynamo_if_loaded()
        if dynamo is not None and not self._watched:
            self._watched = True
            self._patches.replace(dynamo, COMPILATION_SWITCH, self._set_frame(getattr(dynamo, COMPILATION_SWITCH)))
            self._patches.on_removal(lambda: setattr(self, "_watched", False))

    def _set_frame(self, original: Any) -> Any:
        """Dynamo would trace our handler: the mode leaves while a compiled function runs.

        `original` switches compilation on and off around the call, from one and the same frame.
        """
        record = self._record
        under_way: list[tuple[int, Any, OpaqueCall]] = []

        def set_frame(callback: Any) -> Any:
            if not self._patches.here():
                return original(callback)
            frame = sys._getframe(1)
            if callable(callback) and not under_way:
                call = record.tape.guarded(self._call, frame) or _NO_CALL
                unseen = self._patches.unseen()
                unseen.__enter__()
                under_way.append((id(frame), unseen, call))
            elif under_way and under_way[0][0] == id(frame):
                _, unseen, call = under_way.pop()
                unseen.__exit__(None, None, None)
                record.tape.opaque.append(call._replace(last=sequence_number()))
                error = sys.exc_info()[1]  # we are called from its `finally`
                if error is not None:
                    record.failures_keeper.compiler_failed(error, call.site)
            return original(callback)

        return set_frame

    def _call(self, frame: Any) -> OpaqueCall:
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        function = frame.f_locals.get("fn")
        name = f"compiled {getattr(function, '__name__', 'function')}"
        arguments = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
        site = tape.calls.site_of(frame)
        entries = tuple(tape.entry(tensor) for _, tensor in tensors_in(*arguments))
        return OpaqueCall(name, site, tape.scopes.stack[-1], entries, sequence_number(), 0)
