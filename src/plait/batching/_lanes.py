"""Runs the function for every example, each in a seat (lane) of its own that can wait for a value."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from greenlet import GreenletExit, getcurrent, greenlet
from torch.overrides import TorchFunctionMode

from plait.batching import _torch_private as private
from plait.batching._current import local
from plait.batching._dispatch import torch_function
from plait.batching._lazy import BatchError
from plait.batching._runtime import LaneRuntime


class LaneMode(TorchFunctionMode):
    """Sees the calls without any lazy tensor: factories, random draws, writes to shared tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch_function(func, args, kwargs or {})


class _State:
    """torch's state of this thread, which belongs to a lane while the lane runs."""

    __slots__ = ("autocast", "default", "grad", "inference")

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
        self.default = torch.get_default_dtype()

    def differs(self, other: _State) -> bool:
        return (self.grad, self.inference, self.autocast, self.default) != (
            other.grad, other.inference, other.autocast, other.default)

    def install(self) -> None:
        torch._C._set_grad_enabled(self.grad)
        for d, on, dtype in self.autocast:
            torch.set_autocast_enabled(d, on)
            torch.set_autocast_dtype(d, dtype)
        if torch.get_default_dtype() != self.default:
            torch.set_default_dtype(self.default)


class Lanes:
    """The hub: starts lanes, flushes when all of them wait or are done, answers, closes."""

    def __init__(self, rt: LaneRuntime, func: Callable[..., Any], calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        self.rt = rt
        self.func = func
        self.calls = calls
        self.results: list[Any] = [None] * len(calls)
        self.waiting: list[tuple[int, greenlet, Any]] = []
        self.closing = False
        self.base = _State()
        self.depth = 0

    def run(self) -> list[Any]:
        rt = self.rt
        rt.pause = self._pause
        mode = LaneMode()
        before = local.rt
        depth = private.mode_count()
        mode.__enter__()
        self.depth = depth + 1
        local.rt = rt
        self.hub = getcurrent()
        self.idle: list[greenlet] = []
        try:
            self._start()
            while self.waiting:
                local.rt = None
                with private.DisableTorchFunction():
                    rt.exec.flush([w[2][1].slot for w in self.waiting if w[2][1].meta.rows])
                    answers = self._answers()
                local.rt = rt
                round_, self.waiting = self.waiting, []
                for (i, g, request), answer in zip(round_, answers):
                    self._switch(i, g, answer)
                    self._collect(g)
            return self.results
        finally:
            self._close()
            local.rt = before
            rt.pause = lambda request: None
            while private.mode_count() > depth + 1:
                private.pop_mode()
            mode.__exit__(None, None, None)

    def _start(self) -> None:
        """Lanes that never wait share one greenlet: a new one starts only when the last was left waiting."""
        self.todo = iter(range(len(self.calls)))
        self.request: Any = None
        while True:
            g = greenlet(self._work)
            self.left = False
            self._switch(-1, g, None)
            if g.dead:
                break
            self._collect(g)

    def _work(self, _: Any) -> None:
        for i in self.todo:
            self._one(i)
            if getcurrent() is not self.starter:
                return

    def _one(self, i: int) -> None:
        rt = self.rt
        rt.lane = rt.core.lane = i
        args, kwargs = self.calls[i]
        try:
            self.results[i] = self.func(*args, **kwargs)
        except GreenletExit:
            raise
        except BaseException as e:
            if not self.closing:
                e.add_note(f"plait.batch: in example {i} of {len(self.calls)}")
            raise

    def _switch(self, i: int, g: greenlet, answer: Any) -> None:
        if i >= 0:
            self.rt.lane = self.rt.core.lane = i
        else:
            self.starter = g
        self.current = g
        if isinstance(answer, BaseException):
            g.throw(answer)
        else:
            g.switch(answer)

    def _collect(self, g: greenlet) -> None:
        if not g.dead and self.request is not None:
            i, request = self.request
            self.request = None
            self.waiting.append((i, g, request))

    # ------------------------------------------------------------------ in the lane
    def _pause(self, request: Any) -> Any:
        rt = self.rt
        if self.closing:
            raise GreenletExit
        lane = rt.lane
        me = getcurrent()
        if me is not self.current:
            raise BatchError("a value was read in another greenlet than the example's own; read it in the function itself")
        state = _State()
        changed = state.differs(self.base)
        if changed:
            if state.inference != self.base.inference:
                raise BatchError(f"a value is read inside torch.inference_mode() (example {lane}); use torch.no_grad() there")
            self.base.install()
        n = private.mode_count()
        popped = []
        pushed = None
        while private.mode_count() > self.depth:
            popped.append(private.pop_mode())
        if n < self.depth:                                    # we are inside our own mode: PyTorch has set it aside
            pushed = LaneMode()
            private.push_mode(pushed)
        rt.report.reads[request[2]] += 1
        self.request = (lane, request)
        answer: Any = None
        try:
            answer = self.hub.switch()
        finally:
            rt.lane = rt.core.lane = lane
            if pushed is not None:
                private.pop_mode()
            while popped:
                private.push_mode(popped.pop())
            if changed:
                state.install()
        if isinstance(answer, _Failed):
            raise answer.error
        return answer

    # ------------------------------------------------------------------ in the hub
    def _answers(self) -> list[Any]:
        """The numbers that lanes wait for, with one copy per space."""
        ex = self.rt.exec
        answers: list[Any] = [None] * len(self.waiting)
        rt_row = self.rt.core.row_of
        by_space: dict[Any, list[tuple[int, Any]]] = {}
        for k, (_, _, (kind, x, _)) in enumerate(self.waiting):
            if kind == "read":
                if x.meta.rows == 1:
                    by_space.setdefault(x.meta.space, []).append((k, x))
                else:
                    answers[k] = ex.value(x).tolist()
        for space, asked in by_space.items():
            rows = torch.tensor([rt_row(x.slot) for _, x in asked])
            values = ex.arenas[space].buf.index_select(0, rows).tolist()
            for (k, x), v in zip(asked, values):
                answers[k] = [v] if x.meta.lead else v
        return answers

    def _close(self) -> None:
        """Ends lanes that are still waiting; their `finally` blocks run."""
        self.closing = True
        if sys.exc_info()[0] is None and not self.waiting:
            return
        for _, g, _ in self.waiting:
            self.current = g
            if not g.dead:
                try:
                    g.throw(GreenletExit)
                except BaseException:
                    continue
        self.waiting = []


class _Failed:
    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error
