"""What a recording changes in PyTorch while it lasts, and puts back afterwards.

Module calls tell the scope and where an outermost call begins. Optimizer steps and zero_grad become one event: their
hundred small operations run without the mode. Compiled and scripted functions and the forward of custom Functions are
one opaque node. Work of other threads is counted, so that the report can say it was left out.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from plait._torch import pop_mode, push_mode, put_back, sequence_number, take_out, transforms_active
from plait.recorder._events import function_applied
from plait.recorder._events import install as install_events
from plait.recorder._functions import looks
from plait.recorder._new_row import Named, flat, new_row, tensors_in
from plait.recorder._sites import LIBRARY, LOADING, MODULE_CALL, UNSEEN
from plait.recorder._tape import OpaqueCall
from plait.recorder._warnings import relocating

if TYPE_CHECKING:
    from plait.recorder._recorder import Record


_NO_CALL = OpaqueCall("compiled function", None, None, (), 0, 0)
_PLAIN_CALL: Any = nn.Module._wrapped_call_impl
_ABSENT: Any = object()


class Patches:
    """Installs and removes everything that is not the function mode."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._undo: list[Callable[[], None]] = []
        self.threads_with_work: set[str] = set()
        self._dynamo_watched = False

    def install(self) -> None:
        """Change what has to be changed."""
        self._set(nn.Module, "__call__", self._module_call(nn.Module.__call__))
        self._set(torch.autograd.Function, "apply", classmethod(self._apply(torch.autograd.Function.apply.__func__)))  # type: ignore[attr-defined]
        optimizer = torch.optim.Optimizer
        self._set(optimizer, "_patch_step_function", self._prepare(optimizer._patch_step_function))
        for kind in _with_subclasses(optimizer):
            if getattr(kind.__dict__.get("step"), "hooked", False):
                self._set(kind, "step", self._optimizer_step(kind.__dict__["step"]))
        self._set(optimizer, "add_param_group", self._add_group(optimizer.add_param_group))
        self._set(optimizer, "zero_grad", self._zero_grad(optimizer.zero_grad))
        self._set(nn.Module, "zero_grad", self._zero_grad(nn.Module.zero_grad))
        install_events(self, self._record.tape)
        # Not `run`, which a subclass may have made its own, and which stands in the traceback of its errors.
        self._set(threading.Thread, "_bootstrap_inner", self._thread(threading.Thread._bootstrap_inner))  # type: ignore[attr-defined]
        self._set(warnings, "_showwarnmsg", relocating(warnings._showwarnmsg))  # type: ignore[attr-defined]
        self._set(torch, "compile", self._torch_compile(torch.compile))
        self._set(torch.export, "export", self._tracer(torch.export.export))
        self._set(torch.fx, "symbolic_trace", self._tracer(torch.fx.symbolic_trace))
        self._watch_dynamo()

    def remove(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        layer = _Layer(owner, name, owner.__dict__.get(name, _ABSENT), value)
        setattr(owner, name, value)
        _layers.append(layer)
        self._undo.append(layer.undo)

    def _here(self) -> bool:
        return threading.get_ident() == self._record.recording_thread

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        """Run something without the mode and with plain module calls: a compiler may look at them."""
        mode = self._record.mode
        self._record.tape.written = True
        above = take_out(mode)
        call, nn.Module.__call__ = nn.Module.__call__, _PLAIN_CALL  # type: ignore[method-assign]
        try:
            yield
        finally:
            nn.Module.__call__ = call  # type: ignore[method-assign]
            if above is not None and self._record.active:
                put_back(mode, above)

    def _quietly(self, func: Any, *args: Any, **kwargs: Any) -> Any:
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
                    record.failures_keeper.module_failed(self, error, tape.site_of(frame_of(1)))
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
            with self._unseen():
                result = func(*args, **kwargs)
        else:
            result = self._quietly(func, *args, **kwargs)
        if self._here() and any(True for _ in flat(result)):
            tape.guarded(self._opaque_ends, name, args, kwargs, result, site, before)
        return result

    def _opaque_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> int | None:
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        site = tape.site_of(frame)
        for _, tensor in tensors_in(args, kwargs):
            tape.entry(tensor)
        return site

    def _opaque_ends(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, site: int | None, before: int
    ) -> None:
        tape = self._record.tape
        here = len(tape.tokens)
        made = new_row(tape, None, Named(name), args, kwargs, result, site, torch.is_grad_enabled(), before)
        tape.place_result(made, here, before, args, kwargs, result)

    def _apply(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._here():
                return original(cls, *args, **kwargs)
            tape, frame = self._record.tape, sys._getframe(1)
            inside = functools.partial(original, cls)
            result = self._opaque_call(cls.__name__, inside, args, kwargs, frame, False)
            if self._here() and not transforms_active():
                tape.guarded(function_applied, tape, cls, args, kwargs, result, frame)
            return result

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
            if record.tape.values == "stats":
                record.steps_keeper.grad_norm = self._quietly(record.tape.guarded, _gradient_norm, optimizer)
            record.steps_keeper.optimizers_seen = record.in_optimizer = True
            try:
                result = self._quietly(original, optimizer, *args, **kwargs)
            finally:
                record.in_optimizer = False
            if self._here():
                self._quietly(record.tape.guarded, self._optimizer_event, optimizer, sys._getframe(1))
            return result

        step._plait_record = record  # type: ignore[attr-defined]
        return step

    def _watch_optimizer(self, optimizer: Any) -> None:
        """Note an optimizer that was made before the recording began. A scheduler may have given it its own `step`."""
        self._record.steps_keeper.optimizers_seen = True
        step = vars(optimizer).get("step")
        if step is None or getattr(step, "_plait_record", None) is self._record:
            return
        watched = self._optimizer_step(functools.wraps(step)(lambda _, *args, **kwargs: step(*args, **kwargs)))
        own = functools.partial(watched, optimizer)
        functools.update_wrapper(own, watched)
        self._set(optimizer, "step", own)

    def find_optimizers(self) -> bool:
        """Whether there are optimizers that hold a tensor of this step. A search through everything that lives."""
        ids = self._record.tape.ids
        found = False
        for each in gc.get_objects():
            if not issubclass(type(each), torch.optim.Optimizer):
                continue
            parameters = [parameter for group in each.param_groups for parameter in group["params"]]
            entries = [(ids.get(id(parameter)), parameter) for parameter in parameters]
            if any(entry is not None and entry[0]() is parameter for entry, parameter in entries):
                found = True
                self._watch_optimizer(each)
        return found

    def _add_group(self, original: Any) -> Any:
        record = self._record

        @functools.wraps(original)
        def add(optimizer: Any, group: Any) -> None:
            if not self._here():
                original(optimizer, group)
                return
            tape = record.tape
            given = group.get("params") if isinstance(group, dict) else None
            tensors = [given] if isinstance(given, torch.Tensor) else list(given or ()) if _countable(given) else []
            copies = [each for each in tensors if isinstance(each, torch.Tensor) and each.grad_fn is not None]
            if copies:
                tape.event("optimizer_of_results", tape.site_of(sys._getframe(1)), copies, type(optimizer).__name__)
            original(optimizer, group)
            tape.leaves.owned(optimizer, optimizer.param_groups[-1:])
            return

        return add

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
            result = self._quietly(original, owner, *args, **kwargs)
            keeper = self._record.steps_keeper
            if isinstance(owner, torch.optim.Optimizer):
                self._record.tape.guarded(self._watch_optimizer, owner)
            self._record.tape.guarded(keeper.zero_grad, type(owner).__name__, sys._getframe(1))
            return result

        return zero_grad

    def _optimizer_event(self, optimizer: Any, frame: Any) -> None:
        tape = self._record.tape
        site = tape.site_of(frame)
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        tape.leaves.owned(optimizer, optimizer.param_groups)
        stale, missing = tape.leaves.updated(parameters)
        detail = f"{type(optimizer).__name__}, {len(parameters)} tensor{'' if len(parameters) == 1 else 's'}"
        tape.event("optimizer", site, parameters, detail, stale=stale, missing=missing)
        self._record.steps_keeper.optimizer_done(site)

    # -- compiled functions, threads ----------------------------------------------------------------------------

    def _compiled(self, original: Any) -> Any:
        """Dynamo would trace our handler: the mode leaves while a compiled function runs.

        `original` switches compilation on and off around the call, from one and the same frame.
        """
        record = self._record
        under_way: list[tuple[int, Any, OpaqueCall]] = []

        def set_frame(callback: Any) -> Any:
            if not self._here():
                return original(callback)
            frame = sys._getframe(1)
            if callable(callback) and not under_way:
                call = record.tape.guarded(self._compiled_call, frame) or _NO_CALL
                unseen = self._unseen()
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

    def _compiled_call(self, frame: Any) -> OpaqueCall:
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        function = frame.f_locals.get("fn")
        name = f"compiled {getattr(function, '__name__', 'function')}"
        arguments = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
        site = tape.site_of(frame)
        entries = tuple(tape.entry(tensor) for _, tensor in tensors_in(*arguments))
        return OpaqueCall(name, site, tape.scopes.stack[-1], entries, sequence_number(), 0)

    def _torch_compile(self, original: Any) -> Any:
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
                record.failures_keeper.compiler_failed(error, record.tape.site_of(sys._getframe(1)))
                raise

        return trace

    def _watch_dynamo(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        if dynamo is not None and not self._dynamo_watched:
            self._dynamo_watched = True
            self._set(dynamo, "_maybe_set_eval_frame", self._compiled(dynamo._maybe_set_eval_frame))
            self._undo.append(lambda: setattr(self, "_dynamo_watched", False))

    def _thread(self, original: Any) -> Any:
        record, seen = self._record, self.threads_with_work

        @functools.wraps(original)
        def run(thread: threading.Thread) -> None:
            if not record.active:
                original(thread)
                return
            witness = _Witness(thread.name, seen)
            push_mode(witness)
            try:
                original(thread)
            finally:
                take_out(witness)

        return run


class _Layer:
    """One attribute that a recording has replaced."""

    def __init__(self, owner: Any, name: str, old: Any, value: Any) -> None:
        self.owner = owner
        self.name = name
        self.old = old
        self.value = value

    def undo(self) -> None:
        """Put the old value back, also from under another recording that began later and still runs."""
        _layers.remove(self)
        if self.owner.__dict__.get(self.name) is self.value:
            if self.old is _ABSENT:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, self.old)
            return
        for above in _layers:
            if above.old is self.value:
                above.old = self.old  # somebody else's wrapper keeps ours, which is inert by itself


_layers: list[_Layer] = []


def _countable(given: Any) -> bool:
    """Whether looking at it leaves it as it is (a generator would be used up)."""
    return isinstance(given, (list, tuple, set, dict))


class _Witness(TorchFunctionMode):
    """Notices that a thread computes something, and nothing else."""

    def __init__(self, name: str, seen: set[str]) -> None:
        super().__init__()
        self._name = name
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _looks() and not sys._getframe(1).f_code.co_filename.startswith(LOADING):
            self._seen.add(self._name)
        return func(*args, **(kwargs or {}))


_looks = functools.cache(looks)


def _with_subclasses(kind: type[Any]) -> Iterator[type[Any]]:
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
