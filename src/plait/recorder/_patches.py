"""What a recording changes in PyTorch while it lasts, and puts back afterwards.

Module calls tell the scope and where an outermost call begins. Optimizer steps and zero_grad become one event: their
hundred small operations run without the mode. Compiled and scripted functions and the forward of custom Functions are
one opaque node. Work of other threads is counted, so that the report can say it was left out.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from plait._torch import pop_mode, push_mode, put_back, sequence_number, take_out
from plait.graph._rows import EventRow
from plait.recorder._new_row import flat, new_row, reference_from, tensors_in
from plait.recorder._tape import OpaqueCall

if TYPE_CHECKING:
    from plait.recorder._recorder import Record


class Patches:
    """Installs and removes everything that is not the function mode."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._undo: list[Callable[[], None]] = []
        self.threads_with_work: set[str] = set()

    def install(self) -> None:
        """Change what has to be changed."""
        self._set(nn.Module, "__call__", self._module_call(nn.Module.__call__))
        self._set(torch.autograd.Function, "apply", classmethod(self._apply(torch.autograd.Function.apply.__func__)))  # type: ignore[attr-defined]
        optimizer = torch.optim.Optimizer
        self._set(optimizer, "_patch_step_function", self._prepare(optimizer._patch_step_function))
        for kind in _with_subclasses(optimizer):
            if getattr(kind.__dict__.get("step"), "hooked", False):
                self._set(kind, "step", self._optimizer_step(kind.__dict__["step"]))
        self._set(optimizer, "zero_grad", self._zero_grad(optimizer.zero_grad))
        self._set(nn.Module, "zero_grad", self._zero_grad(nn.Module.zero_grad))
        self._set(threading.Thread, "run", self._thread_run(threading.Thread.run))
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if dynamo is not None:
            self._set(dynamo, "_maybe_set_eval_frame", self._compiled(dynamo._maybe_set_eval_frame))

    def remove(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        present = name in owner.__dict__
        old = owner.__dict__.get(name)
        setattr(owner, name, value)

        def undo() -> None:
            if owner.__dict__.get(name) is not value:
                return  # somebody has wrapped ours since; it is inert by itself
            if present:
                setattr(owner, name, old)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def _here(self) -> bool:
        record = self._record
        return record.active and threading.get_ident() == record.thread

    @contextmanager
    def _without_mode(self) -> Iterator[None]:
        """Run something unseen."""
        mode = self._record.mode
        above = take_out(mode)
        try:
            yield
        finally:
            if above is not None and self._record.active:
                put_back(mode, above)

    # -- modules ------------------------------------------------------------------------------------------------

    def _module_call(self, original: Any) -> Any:
        record, thread_of = self._record, threading.get_ident
        scopes, steps, tape = record.tape.scopes, record.steps_keeper, record.tape
        stack = scopes.stack
        frame_of = sys._getframe
        opaque_kinds = _opaque_modules()

        @functools.wraps(original)
        def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if thread_of() != record.thread or not record.active:
                return original(self, *args, **kwargs)
            if isinstance(self, opaque_kinds):
                return opaque(self, args, kwargs)
            if len(stack) == 1 and not tape.backward_depth:
                steps.call_begins(tape.site_of(frame_of(1)))
            stack.append(scopes.of(self))
            try:
                return original(self, *args, **kwargs)
            except Exception as error:
                if len(stack) == 2:
                    record.failures_keeper.module_failed(self, error, tape.site_of(frame_of(1)))
                raise
            finally:
                stack.pop()

        def opaque(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            name = "compiled" if type(module).__name__ == "OptimizedModule" else "scripted"
            inner = getattr(module, "_orig_mod", module)
            kind = getattr(inner, "original_name", type(inner).__name__)
            return self._opaque_call(f"{name} {kind}", original, (module, *args), kwargs, frame_of(2))

        return call

    def _opaque_call(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> Any:
        """One node for a call whose inside is not looked at; its results are its outputs."""
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        site = tape.site_of(frame)
        for _, tensor in tensors_in(args, kwargs):
            tape.entry(tensor)
        before = sequence_number()
        with self._without_mode():
            result = func(*args, **kwargs)
        if not self._record.active or not any(True for _ in flat(result)):
            return result
        here = len(tape.tokens)
        made = new_row(
            tape, (name, site, here), _Named(name), args, kwargs, result, site, torch.is_grad_enabled(), before,
            sequence_number(),
        )  # fmt: skip
        tape.place_result(made, here, before, args, kwargs, result)
        return result

    def _apply(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._here():
                return original(cls, *args, **kwargs)
            return self._opaque_call(cls.__name__, functools.partial(original, cls), args, kwargs, sys._getframe(1))

        return apply

    # -- optimizers ---------------------------------------------------------------------------------------------

    def _prepare(self, original: Any) -> Any:
        @functools.wraps(original)
        def prepare(optimizer: Any) -> None:
            original(optimizer)
            if self._here():
                self._record.steps_keeper.optimizers_seen = True
            kind = type(optimizer)
            owner = next(each for each in kind.__mro__ if "step" in each.__dict__)
            step = owner.__dict__["step"]
            if self._record.active and getattr(step, "_plait_record", None) is not self._record:
                self._set(owner, "step", self._optimizer_step(step))

        return prepare

    def _optimizer_step(self, original: Any) -> Any:
        record = self._record

        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._here() or record.in_optimizer:
                return original(optimizer, *args, **kwargs)
            if args and callable(args[0]):
                args = (self._closure(args[0]), *args[1:])
            if callable(kwargs.get("closure")):
                kwargs["closure"] = self._closure(kwargs["closure"])
            site = record.tape.site_of(sys._getframe(1))
            if record.tape.values == "stats":
                record.steps_keeper.grad_norm = _gradient_norm(optimizer)
            record.in_optimizer = True
            try:
                with self._without_mode():
                    result = original(optimizer, *args, **kwargs)
            finally:
                record.in_optimizer = False
            if self._here():
                self._event("optimizer", optimizer, site)
                record.steps_keeper.optimizer_done(site)
            return result

        step._plait_record = record  # type: ignore[attr-defined]
        return step

    def _closure(self, closure: Any) -> Any:
        """LBFGS and others run the model inside their step: that part is the program's own again."""
        record = self._record

        @functools.wraps(closure)
        def inside(*args: Any, **kwargs: Any) -> Any:
            if not record.active:
                return closure(*args, **kwargs)
            push_mode(record.mode)
            record.in_optimizer = False
            try:
                return closure(*args, **kwargs)
            finally:
                record.in_optimizer = True
                pop_mode()

        return inside

    def _zero_grad(self, original: Any) -> Any:
        @functools.wraps(original)
        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._here() or self._record.in_optimizer:
                return original(owner, *args, **kwargs)
            site = self._record.tape.site_of(sys._getframe(1))
            with self._without_mode():
                result = original(owner, *args, **kwargs)
            self._record.steps_keeper.zero_grad(EventRow("zero_grad", type(owner).__name__, site, ()))
            return result

        return zero_grad

    def _event(self, what: str, optimizer: Any, site: int | None) -> None:
        tape = self._record.tape
        values = []
        count = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                count += 1
                entry = tape.ids.get(id(parameter))
                if entry is not None and entry[0]() is parameter:
                    values.append(reference_from(len(tape.tokens), entry))
        detail = f"{type(optimizer).__name__}, {count} tensor{'' if count == 1 else 's'}"
        tape.append(EventRow(what, detail, site, tuple(values)))

    # -- compiled functions, threads ----------------------------------------------------------------------------

    def _compiled(self, original: Any) -> Any:
        """Dynamo would trace our handler: the mode leaves while a compiled function runs."""
        record = self._record
        out: list[tuple[list[Any], int, str, int | None]] = []

        def set_frame(callback: Any) -> Any:
            if self._here():
                tape = record.tape
                if callable(callback) and not out:
                    frame = sys._getframe(1)
                    code = frame.f_locals.get("fn")
                    name = getattr(code, "__name__", "function")
                    site = tape.site_of(frame)
                    arguments = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
                    entries = tuple(tape.entry(tensor) for _, tensor in tensors_in(*arguments))
                    above = take_out(record.mode)
                    if above is not None:
                        out.append((above, sequence_number(), name, site))
                        record.compiled_entries = entries
                elif not callable(callback) and out:
                    above, first, name, site = out.pop()
                    put_back(record.mode, above)
                    tape.opaque.append(
                        OpaqueCall(
                            f"compiled {name}", site, tape.scopes.stack[-1], record.compiled_entries, first,
                            sequence_number(),
                        )
                    )  # fmt: skip
            return original(callback)

        return set_frame

    def _thread_run(self, original: Any) -> Any:
        record, seen = self._record, self.threads_with_work

        @functools.wraps(original)
        def run(thread: threading.Thread) -> None:
            if not record.active:
                return original(thread)
            witness = _Witness(thread.name, seen)
            push_mode(witness)
            try:
                original(thread)
            finally:
                take_out(witness)

        return run


class _Witness(TorchFunctionMode):
    """Notices that a thread computes something, and nothing else."""

    def __init__(self, name: str, seen: set[str]) -> None:
        super().__init__()
        self._name = name
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._seen.add(self._name)
        return func(*args, **(kwargs or {}))


class _Named:
    """Stands for a function whose only known fact is its name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def _opaque_modules() -> tuple[type, ...]:
    kinds: list[type] = [torch.jit.ScriptModule]
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None:
        kinds.append(dynamo.OptimizedModule)
    return tuple(kinds)


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    for each in kind.__subclasses__():
        yield from _with_subclasses(each)


def _gradient_norm(optimizer: Any) -> float | None:
    gradients = [
        parameter.grad.detach()
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.grad is not None and not parameter.grad.is_sparse
    ]
    if not gradients:
        return None
    norms = torch._foreach_norm(gradients)
    return float(sum(float(norm) ** 2 for norm in norms) ** 0.5)
