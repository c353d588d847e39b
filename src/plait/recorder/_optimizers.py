"""Optimizers: a step, or a `zero_grad`, becomes one event; its hundred small operations run without the mode."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait._torch import STEP_PREPARATION, norms, pop_mode, push_mode

if TYPE_CHECKING:
    from plait.recorder._patches import Patches
    from plait.recorder._recorder import Record


class Optimizers:
    """Watches the optimizers of the program, also those that were made before the recording."""

    def __init__(self, record: Record, patches: Patches) -> None:
        self._record = record
        self._patches = patches

    def install(self) -> None:
        """Change what has to be changed."""
        replace, optimizer = self._patches.replace, torch.optim.Optimizer
        replace(optimizer, STEP_PREPARATION, self._prepare(getattr(optimizer, STEP_PREPARATION)))
        for kind in _with_subclasses(optimizer):
            if getattr(kind.__dict__.get("step"), "hooked", False):
                replace(kind, "step", self._step(kind.__dict__["step"]))
        replace(optimizer, "add_param_group", self._added_group(optimizer.add_param_group))
        replace(optimizer, "zero_grad", self._zero_grad(optimizer.zero_grad))
        replace(nn.Module, "zero_grad", self._zero_grad(nn.Module.zero_grad))

    def find(self) -> bool:
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
                self._watch(each)
        return found

    def _watch(self, optimizer: Any) -> None:
        """Note an optimizer that was made before the recording began. A scheduler may have given it its own `step`."""
        self._record.steps_keeper.optimizers_seen = True
        step = vars(optimizer).get("step")
        if step is None or getattr(step, "_plait_record", None) is self._record:
            return
        watched = self._step(functools.wraps(step)(lambda _, *args, **kwargs: step(*args, **kwargs)))
        own = functools.partial(watched, optimizer)
        functools.update_wrapper(own, watched)
        self._patches.replace(optimizer, "step", own)

    def _prepare(self, original: Any) -> Any:
        @functools.wraps(original)
        def prepare(optimizer: Any) -> None:
            original(optimizer)
            if self._patches.here():
                self._record.steps_keeper.optimizers_seen = True
            kind = type(optimizer)
            owner = next(each for each in kind.__mro__ if "step" in each.__dict__)
            step = owner.__dict__["step"]
            if self._record.active and getattr(step, "_plait_record", None) is not self._record:
                self._patches.replace(owner, "step", self._step(step))

        return prepare

    def _step(self, original: Any) -> Any:
        record = self._record

        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._patches.here() or record.in_optimizer:
                return original(optimizer, *args, **kwargs)
            if args and callable(args[0]):
                args = (self._closure(args[0]), *args[1:])
            if callable(kwargs.get("closure")):
                kwargs["closure"] = self._closure(kwargs["closure"])
            if record.tape.values == "stats":
                record.steps_keeper.grad_norm = self._patches.quietly(record.tape.guarded, _gradient_norm, optimizer)
            record.steps_keeper.optimizers_seen = record.in_optimizer = True
            try:
                result = self._patches.quietly(original, optimizer, *args, **kwargs)
            finally:
                record.in_optimizer = False
            if self._patches.here():
                self._patches.quietly(record.tape.guarded, self._event, optimizer, sys._getframe(1))
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

    def _event(self, optimizer: Any, frame: Any) -> None:
        tape = self._record.tape
        site = tape.calls.site_of(frame)
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        tape.leaves.owned(optimizer, optimizer.param_groups)
        stale, missing = tape.leaves.updated(parameters)
        detail = f"{type(optimizer).__name__}, {len(parameters)} tensor{'' if len(parameters) == 1 else 's'}"
        tape.event("optimizer", site, parameters, detail, stale=stale, missing=missing)
        self._record.steps_keeper.optimizer_done(site)

    def _zero_grad(self, original: Any) -> Any:
        @functools.wraps(original)
        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._patches.here() or self._record.in_optimizer:
                return original(owner, *args, **kwargs)
            result = self._patches.quietly(original, owner, *args, **kwargs)
            keeper = self._record.steps_keeper
            if isinstance(owner, torch.optim.Optimizer):
                self._record.tape.guarded(self._watch, owner)
            self._record.tape.guarded(keeper.zero_grad, type(owner).__name__, sys._getframe(1))
            return result

        return zero_grad

    def _added_group(self, original: Any) -> Any:
        record = self._record

        @functools.wraps(original)
        def add(optimizer: Any, group: Any) -> None:
            if not self._patches.here():
                original(optimizer, group)
                return
            tape = record.tape
            given = group.get("params") if isinstance(group, dict) else None
            tensors = [given] if isinstance(given, torch.Tensor) else list(given or ()) if _countable(given) else []
            copies = [each for each in tensors if isinstance(each, torch.Tensor) and each.grad_fn is not None]
            if copies:
                tape.event(
                    "optimizer_of_results", tape.calls.site_of(sys._getframe(1)), copies, type(optimizer).__name__
                )
            original(optimizer, group)
            tape.leaves.owned(optimizer, optimizer.param_groups[-1:])
            return

        return add


def _countable(given: Any) -> bool:
    """Whether looking at it leaves it as it is (a generator would be used up)."""
    return isinstance(given, (list, tuple, set, dict))


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
    return float(sum(float(norm) ** 2 for norm in norms(gradients)) ** 0.5)
