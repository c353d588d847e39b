"""Runs the function for every example, each in a seat (lane) of its own that can wait for a value."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import MethodType
from typing import Any

import torch
from greenlet import GreenletExit, getcurrent, greenlet
from torch.overrides import TorchFunctionMode

from plait import _torch as private
from plait.batching._core_choice import dispatch
from plait.batching._current import local
from plait.batching._lazy import BatchError
from plait.batching._runtime import LaneRuntime


class LaneMode(TorchFunctionMode):
    """Sees the calls without any lazy tensor: factories, random draws, writes to shared tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.__torch_function__ = MethodType(dispatch, self)  # type: ignore[method-assign]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(self, func, types, args, kwargs)


class _State:
    """torch's state of this thread, which belongs to a lane while the lane runs."""

    __slots__ = ("any_autocast", "autocast", "default", "grad", "inference")

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
        self.default = torch.get_default_dtype()
        self.any_autocast = private.is_autocast_on()

    def differs(self, other: _State) -> bool:
        return (self.grad, self.inference, self.autocast, self.default) != (
            other.grad,
            other.inference,
            other.autocast,
            other.default,
        )

    def install(self) -> None:
        torch._C._set_grad_enabled(self.grad)
        for d, on, dtype in self.autocast:
            torch.set_autocast_enabled(d, on)
            torch.set_autocast_dtype(d, dtype)
        if torch.get_default_dtype() != self.default:
            torch.set_default_dtype(self.default)


class _Settings:
    """What a person's `with` changes for the whole process, such as `redirect_stdout` and `catch_warnings`: as torch's
    state, it belongs to the example that runs."""

    PLACES = (
        (sys, "stdout"), (sys, "stderr"), (warnings, "filters"), (warnings, "showwarning"),
        (warnings, "_showwarnmsg_impl"),  # with `record=True`
    )  # fmt: skip

    def __init__(self) -> None:
        self.found = tuple([(vars(m), name, vars(m)[name]) for m, name in self.PLACES if name in vars(m)])

    def changed(self) -> list[tuple[dict[str, Any], str, Any]]:
        """What is other now, and is put back until the example goes on (see `put`)."""
        now = [(d, name, d.get(name)) for d, name, before in self.found if d.get(name) is not before]
        if now:
            self.put(self.found)
        return now

    @staticmethod
    def put(values: Iterable[tuple[dict[str, Any], str, Any]]) -> None:
        for d, name, value in values:
            d[name] = value
        mutated = getattr(warnings, "_filters_mutated", None)
        if mutated is not None:  # what Python has noted of warnings that it showed is out of date
            mutated()


FEW = 8  # examples after which it is worth a look whether anything batches


class Lanes:
    """The hub: starts lanes, flushes when all of them wait or are done, answers, closes."""

    def __init__(
        self,
        rt: LaneRuntime,
        func: Callable[..., Any],
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]],
        early: bool = False,
    ) -> None:
        """`early`: may end after the first few examples, if these have nothing to run together."""
        self.rt = rt
        self.func = func
        self.calls = calls
        self.results: list[Any] = []  # of the examples that ran here: the first few, or all
        self.waiting: list[tuple[int, greenlet, Any]] = []
        rt.core.waiting = self.waiting
        self.resuming: list[tuple[int, greenlet, Any]] = []
        self.closing = False
        self.look_at = FEW if early and len(calls) >= 2 * FEW else -1
        self.held = False
        self.base = _State()
        self.settings = _Settings()
        self.depth = 0

    def run(self) -> list[Any]:
        rt = self.rt
        rt.pause = self._pause
        mode = LaneMode()
        before = local.rt
        depth = private.mode_depth()
        mode.__enter__()  # type: ignore[no-untyped-call]
        self.depth = depth + 1
        local.rt = rt
        core = rt.core
        self.hub = getcurrent()
        core.pause, core.hub, core.getcurrent, core.plain = self._pause, self.hub.switch, getcurrent, rt.log is not None
        base = self.base
        core.cast = base.any_autocast
        core.settings = self.settings.found
        if not base.any_autocast:
            core.checks = rt.checks = (
                torch.is_grad_enabled, base.grad, torch.is_inference_mode_enabled, base.inference,
                torch.get_default_dtype, base.default, private.mode_depth, self.depth,
            )  # fmt: skip
        try:
            self.todo: Iterator[int] = iter(range(len(self.calls)))
            self._start()
            while self.waiting or self.held:
                if self.held and self._decide():
                    continue
                local.rt = None
                with private.DisableTorchFunction():
                    slots = [w[2][1].slot for w in self.waiting if w[2][1].meta.rows]
                    rt.exec.flush(slots, Counter(w[2][2] for w in self.waiting) if rt.watch else None)
                    answers = self._answers()
                local.rt = rt
                self.resuming, self.waiting = self.waiting, []
                core.waiting = self.waiting
                core.resume(self.resuming, answers)
                while (turn := core.turn()) is not None:  # the compiled core goes from example to example itself
                    g, answer = turn
                    g.switch(answer)
            return self.results
        finally:
            self._close()
            local.rt = before
            rt.pause = lambda request: None
            while private.mode_depth() > depth + 1:
                private.pop_mode()
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _start(self) -> None:
        """Lanes that never wait share one greenlet: a new one starts only when the last was left waiting."""
        self.look_at = -1 if self.results else self.look_at
        while True:
            g = self.starter = self.rt.core.current = greenlet(self._work)
            g.switch(None)
            if g.dead:
                break

    def _work(self, _: Any) -> None:
        for i in self.todo:
            if i == self.look_at and self._unlike():
                self.todo, self.held = chain((i,), self.todo), True
                return
            self.results.append(None)
            self._one(i)
            if getcurrent() is not self.starter:
                return

    def _unlike(self) -> bool:
        """Whether the first examples made next to no call of a kind that another one made too."""
        _, kinds, pairs = self.rt.core.shared()
        return bool(pairs <= 1.1 * kinds)

    def _decide(self) -> bool:
        """The others were held back, since the first few examples had nothing in common so far: if that is still so
        after a fair number of calls, they stay out; else they start."""
        many = self.rt.core.shared()[0] >= 8 * FEW
        if self.waiting and not many:
            return False
        self.held = False
        if not (many and self._unlike()):
            self._start()
        return True

    def _one(self, i: int) -> None:
        self.rt.lane = self.rt.lane_of(i)
        args, kwargs = self.calls[i]
        try:
            self.results[i] = self.func(*args, **kwargs)
        except GreenletExit:
            raise
        except BaseException as e:
            if not self.closing:
                e.add_note(f"plait.batch: in example {i} of {len(self.calls)}")
            raise

    # ------------------------------------------------------------------ in the lane
    def _pause(self, request: Any) -> Any:
        rt = self.rt
        if self.closing:
            raise GreenletExit
        lane = rt.lane
        me = getcurrent()
        if me is not rt.core.current:
            raise BatchError(
                "a value was read in another greenlet than the example's own; read it in the function itself"
            )
        if rt.inside:
            raise BatchError(
                f"a value is read inside of `{rt.inside}` (example {rt.example}), where another example cannot run; "
                "read it before, or call the function of torch instead of the operator"
            )
        if rt.exchanging:
            raise BatchError(
                f"a value is read inside of functional_call (example {rt.example}), where the other examples would run "
                "with its weights; read it before or after that call, or call torch's functions with the weights"
            )
        base = self.base
        changed = (
            torch.is_grad_enabled() is not base.grad
            or private.is_autocast_on()
            or base.any_autocast
            or torch.is_inference_mode_enabled() is not base.inference
            or torch.get_default_dtype() is not base.default
        )
        if changed:
            state = _State()
            if state.inference != self.base.inference:
                raise BatchError(
                    f"a value is read inside torch.inference_mode() (example {rt.example}); use torch.no_grad() there"
                )
            self.base.install()
        n = private.mode_depth()
        popped = []
        if n != self.depth:
            while private.mode_depth() > self.depth:
                popped.append(private.pop_mode())
            if n < self.depth:  # we are inside our own mode: PyTorch has set it aside
                private.push_mode(LaneMode())
        settings = self.settings.changed()
        self.waiting.append((lane, me, request))
        answer: Any = None
        try:
            answer = self.hub.switch()
        finally:
            rt.lane = lane
            if settings:
                self.settings.put(settings)
            if n != self.depth:
                if n < self.depth:
                    private.pop_mode()
                while popped:
                    private.push_mode(popped.pop())
            if changed:
                state.install()
        return answer

    # ------------------------------------------------------------------ in the hub
    def _answers(self) -> list[Any]:
        """The numbers that lanes wait for, with one copy per space."""
        ex = self.rt.exec
        alike = self.rt.core.asked(self.waiting)
        if alike is not None:
            packed, meta, places = alike
            sites = self.rt.report.sites
            for place, count in places.items():
                sites[place] += count
            rows = torch.frombuffer(packed, dtype=torch.int64)
            if self.rt.device.type != "cpu":
                rows = rows.to(self.rt.device)
            return ex.arenas[meta.space].buf.index_select(0, rows).tolist()
        answers: list[Any] = [None] * len(self.waiting)
        rt_row = self.rt.core.row_of
        by_space: dict[Any, list[tuple[int, Any]]] = {}
        reads = self.rt.report.sites
        for k, (_, _, (kind, x, where)) in enumerate(self.waiting):
            reads[where] += 1
            if kind == "read":
                if x.meta.rows == 1:
                    by_space.setdefault(x.meta.space, []).append((k, x))
                else:
                    answers[k] = ex.value(x).tolist()
        for space, asked in by_space.items():
            rows = torch.tensor([rt_row(x.slot) for _, x in asked], device=self.rt.device)
            values = ex.arenas[space].buf.index_select(0, rows).tolist()
            for (k, x), v in zip(asked, values):
                answers[k] = [v] if x.meta.lead else v
        return answers

    def _close(self) -> None:
        """Ends lanes that are still waiting; their `finally` blocks run."""
        self.closing = True
        core = self.rt.core
        core.waiting = core.checks = self.rt.checks = None  # from now on every example that waits leaves
        for i, g, _ in (*self.waiting, *self.resuming):
            core.current = g
            if not g.dead:
                core.lane = i
                try:
                    g.throw(GreenletExit)
                except BaseException:
                    continue
        self.waiting = []
        self.resuming = []
        core.pause = core.hub = core.current = core.settings = None
