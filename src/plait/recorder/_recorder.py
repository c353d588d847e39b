"""Record: switches everything on and off, and is itself the recording one reads."""

from __future__ import annotations

import _thread
import contextlib
import functools
import json
import os
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MethodType
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from plait._errors import NotFoundError, PlaitError, say
from plait._torch import compilations, push_mode, set_grad_enabled, take_out
from plait._watch import batch_listeners
from plait.recorder._backward import BackwardWatch
from plait.recorder._batches import Batches
from plait.recorder._decisions import make_gradient_look, make_mode_switch, make_reads
from plait.recorder._failure import Failures, OnError
from plait.recorder._ops import make_handler
from plait.recorder._patches import Patches
from plait.recorder._sites import Sites
from plait.recorder._steps import Steps as StepKeeper
from plait.recorder._tape import Tape
from plait.recording import Failure, Recording
from plait.recording._writer import Writer

P = ParamSpec("P")
R = TypeVar("R")

_active: weakref.WeakSet[Record] = weakref.WeakSet()
_made: list[weakref.ref[Record]] = []  # the latest recordings of the process, for questions about a tensor


class _Mode(TorchFunctionMode):
    """What lies on PyTorch's mode stack. Its handler is set on the instance: a closure is faster than a method."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Record(Recording):
    """Watches a program and is the recording of it: read `steps`, `graph`, `decisions` when it is done.

    >>> import plait, torch
    >>> with plait.record() as rec:
    ...     x = torch.ones(3, requires_grad=True)
    ...     (x * 2).sum().backward()
    >>> rec.graph
    <plait.Graph: 3 ops, 0 inputs, 0 decisions, 1 backward pass>
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, values: Literal["loss", "stats"], limit: int, overwrite: bool,
        program_texts: Mapping[str, str],
    ) -> None:  # fmt: skip
        writer = Writer(None if path is None else Path(path), overwrite)
        super().__init__(writer.connection, None if path is None else str(path))
        self._writer = writer
        self._closed = False
        self.active = False
        self.recording_thread: int | None = None  # the thread that is recorded, while it is
        self.in_optimizer = False
        self.tape = Tape(Sites(program_texts), values)
        self.mode = _Mode()
        watch = BackwardWatch(self.tape, self.mode)
        self.steps_keeper = StepKeeper(self.tape, watch, writer, limit)
        watch.on_done = self.steps_keeper.backward_done
        specials: dict[Any, Any] = {
            set_grad_enabled: make_mode_switch(self.tape), **make_gradient_look(self.tape),
            **make_reads(self.tape), **watch.specials(),
        }  # fmt: skip
        self.failures_keeper = Failures(self.tape, lambda: self.steps_keeper.count, self._keep_failure)
        self._handler = MethodType(make_handler(self.tape, specials), self.mode)
        self._patches = Patches(self)
        self._batches = Batches(self)
        self.steps_keeper.find_optimizers = self._patches.optimizers.find
        _made[:] = [*(each for each in _made[-7:] if each() is not None), weakref.ref(self)]
        self.tape.on_broken = self._broken
        self._failed = False
        self._noted_inner = False
        self._began = time.time()
        writer.set_meta(
            python=platform.python_version(), torch=torch.__version__, started=time.time(), values=values, limit=limit,
            status="running",
        )  # fmt: skip

    # -- on and off ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Record:
        if self.active:
            raise PlaitError("this recording is already running; make another one with plait.record()")
        self.active = True
        self._began = time.time()
        self.recording_thread = threading.get_ident()
        tape = self.tape
        tape.calls.root = id(_program_frame(tape.sites, sys._getframe(1)))
        tape.grad, tape.inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        tape.circumstances = 4 * tape.inference
        self.mode.__torch_function__ = self._handler  # type: ignore[method-assign]
        self._patches.install()
        batch_listeners.append(self._batches.begin)
        for outer in _active:
            if outer.recording_thread == self.recording_thread:
                outer._note_inner()
        _active.add(self)
        push_mode(self.mode)
        tape.clear()
        return self

    def __exit__(
        self,
        *error: object,
    ) -> None:
        kind = error[0] if error else None
        if not self.active:
            return
        if len(error) > 1 and isinstance(error[1], Exception):
            self.failures_keeper.compiler_failed(error[1], None)
        take_out(self.mode)
        self.active = False
        self.recording_thread = None
        _active.discard(self)
        self._patches.remove()
        batch_listeners.remove(self._batches.begin)
        threads = sorted(self._patches.threads_with_work)
        if threads:
            names = ", ".join(threads[:5]) + (", ..." if len(threads) > 5 else "")
            self._writer.add(
                "note", [(None, "threads", f"What other threads computed is not in the recording ({names}).")]
            )
        status = "done" if kind is None else f"stopped by {getattr(kind, '__name__', kind)}"
        self._writer.set_meta(status=status)
        compiled = [each for each in compilations(self._began) if self.tape.sites.is_program(each["file"])]
        if compiled:
            for each in compiled:
                self.tape.sites.keep_source(each["file"])
            self._writer.set_meta(compiled=json.dumps(compiled))
        self.tape.guarded(self.steps_keeper.finish, kind is None)
        self.tape.guarded(self._writer.finish)

    def _note_inner(self) -> None:
        """Another recording begins within this one and takes over until it ends."""
        if not self._noted_inner:
            self._noted_inner = True
            sentence = (
                "Another recording began within this one; what it recorded is in its own file and not in this one."
            )
            self._writer.add("note", [(None, "inner", sentence)])

    def _broken(self, error: Exception) -> None:
        """The recorder itself failed: let the program run on unseen, and say so once."""
        vars(self.mode).pop("__torch_function__", None)
        self.recording_thread = None
        if self._failed:
            return
        self._failed = True
        sentence = (
            f"recording stopped at step {self.steps_keeper.count}: plait failed ({type(error).__name__}: {error})"
        )
        self._writer.add("note", [(None, "stopped", sentence)])
        say(f"plait: {sentence}; the program goes on. Please report this.")

    def save_while_stuck(self, seconds: float = 1.0) -> None:
        """From now on also write when nothing happens for a while: a rank that waits for the others may be killed."""
        _thread.start_new_thread(self._watch, (seconds,))

    def _watch(self, seconds: float) -> None:
        seen = saved = -1
        while not self._closed:
            time.sleep(seconds)
            now = hash((len(self.tape.tokens), self.steps_keeper.count))
            if now == seen and now != saved and self.active:
                with contextlib.suppress(Exception):  # the program went on in this very moment: the next time
                    self.steps_keeper.flush(open_step=True)
                saved = now
            seen = now

    def step(self) -> None:
        """End a step here (where neither an optimizer nor a backward pass ends it)."""
        if self.active and not self._failed:
            self.tape.guarded(self.steps_keeper.close)

    def run(self, func: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `func(*args, **kwargs)` returns; the call is recorded.

        >>> rec = plait.record()                          # doctest: +SKIP
        >>> scores = rec.run(model, batch)                 # doctest: +SKIP
        """
        with self:
            return func(*args, **kwargs)

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: every call of the function is recorded into this recording."""

        @functools.wraps(func)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            if self.active:
                return func(*args, **kwargs)
            with self:
                return func(*args, **kwargs)

        return recorded

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the recording into a file.

        Raises:
            RecordingError: the file exists (unless `overwrite`) or cannot be written.
        """
        self._writer.save_as(Path(path), overwrite)

    def add_meta(self, **facts: object) -> None:
        """Put facts about the run into the recording."""
        self._writer.set_meta(**facts)

    @property
    def stopped(self) -> str | None:
        """Why nothing is written any more (the disk was full), or None."""
        return self._writer.stopped

    def _keep_failure(self, failure: Failure) -> None:
        self._writer.add("failure", [(None, failure.step, failure.to_json())])

    def finish(self) -> None:
        """Write everything that waits."""
        self.tape.guarded(self.steps_keeper.flush)
        self.tape.guarded(self._writer.finish)

    def close(self) -> None:
        """Stop, if it still runs, and close the file."""
        self.__exit__()
        with self._writer.lock:
            self._closed = True
            super().close()

    def _all(self, sql: str, *values: Any) -> list[Any]:
        if self.active:
            self.steps_keeper.flush()
        return super()._all(sql, *values)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    values: Literal["loss", "stats"] = "loss",
    limit: int = 100_000,
    overwrite: bool = False,
    program_texts: Mapping[str, str] | None = None,
    on_error: OnError | None = None,
) -> Record:
    """A recording that starts with `with`, as a decorator, or by its `run`. See `plait.record`."""
    if values not in ("loss", "stats"):
        raise PlaitError(f"record(values={values!r}): it must be 'loss' or 'stats'")
    if limit < 1:
        raise PlaitError(f"record(limit={limit!r}): it must be at least 1, the number of distinct graphs to keep")
    made = Record(path, values, limit, overwrite, program_texts or {})
    made.failures_keeper.explain = on_error
    return made


def _program_frame(sites: Sites, frame: Any) -> Any:
    """The innermost frame of the program itself."""
    while frame is not None and not isinstance(sites.of(frame.f_code), dict):
        frame = frame.f_back
    return frame


def recording_of(tensor: Any) -> tuple[Record, int]:
    """The latest recording that knows this leaf, and the leaf's number in it.

    Raises:
        NotFoundError: none does.
    """
    if isinstance(tensor, torch.Tensor):
        for each in reversed(_made):
            record_ = each()
            if record_ is not None and (number := record_.tape.leaves.known(tensor)) is not None:
                if record_.active:
                    record_.finish()
                return record_, number
    raise NotFoundError("no recording of this process knows the tensor as a leaf that asks for gradients")


def _in_child() -> None:
    """A forked child (a DataLoader worker) inherits the mode: make it inert and leave the file to the parent."""
    for each in list(_active):
        each.active = False
        each.recording_thread = None
        vars(each.mode).pop("__torch_function__", None)
        each._writer.abandon()
    _active.clear()


os.register_at_fork(after_in_child=_in_child)
