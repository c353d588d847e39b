"""What is known at the moment of an error. Runs on the error path only: a healthy program pays nothing for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from plait._torch import DisableTorchFunction, refusal_lines, transforms_active
from plait.recorder._arguments import tensors_in
from plait.recorder._backward import pass_arguments
from plait.recorder._custom import wrong_count
from plait.recorder._functions import READS, plain_name
from plait.recorder._past import Past
from plait.recorder._tape import Tape
from plait.recording._failure import Facts, Failure

MOST_ERRORS: Final = 50  # errors explained in one run: a program may use them for its control flow
OnError = Callable[[Facts], Failure | None]
_BACKWARD: Final = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
_TAKEN = "__plait_failure__"


class Failures:
    """Gathers facts about errors and hands them to whoever explains; keeps and notes the answer."""

    def __init__(self, tape: Tape, step: Callable[[], int], keep: Callable[[Failure], None]) -> None:
        self.explain: OnError | None = None
        self._tape = tape
        self._step = step
        self._keep = keep
        self._count = 0
        tape.on_failed = self.call_failed

    def call_failed(
        self, func: Any, error: Exception, site: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """A call through torch raised."""
        if self._ours(error):
            if func in _BACKWARD:
                # The engine may raise what a custom Function raised, after that one had its chance.
                self._explain(error, lambda: self._backward(func, error, site, args, kwargs))
            else:
                self._explain(error, lambda: self._call(func, error, site, args, kwargs))

    def module_failed(self, module: Any, error: Exception, site: int | None) -> None:
        """The forward of an outermost module raised, and no call inside has."""
        if self._ours(error):
            self._explain(error, lambda: self._module(module, error, site))

    def compiler_failed(self, error: BaseException, called: int | None) -> None:
        """A compiler (torch.compile, export, fx) refused the program; `called` is the place of the call, if known."""
        lines = refusal_lines(error) if isinstance(error, Exception) else None
        if lines is not None and isinstance(error, Exception) and self._ours(error):
            self._explain(error, lambda: self._compiler(error, lines, called))

    def _ours(self, error: Exception) -> bool:
        return self.explain is not None and getattr(error, _TAKEN, None) is None and self._count < MOST_ERRORS

    def _explain(self, error: Exception, gather: Callable[[], Facts | None]) -> None:
        try:
            with DisableTorchFunction(), torch.no_grad():
                facts = gather()
            failure = None if facts is None or self.explain is None else self.explain(facts)
            if failure is None:
                return
            self._count += 1
            setattr(error, _TAKEN, failure)
            error.add_note(failure.note)
            self._keep(failure)
        except Exception:  # an error of ours must never hide the program's own
            return

    # -- the three doors ------------------------------------------------------------------------------------------

    def _backward(
        self, func: Any, error: Exception, site: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Facts | None:
        tape = self._tape
        roots, wanted, *_ = pass_arguments(func, args, kwargs)
        if not roots or transforms_active():
            return None
        past = Past(tape)
        reached, broken, leaves, older = past.walk(roots)
        custom = wrong_count(roots, error)
        given = kwargs.get("gradient", kwargs.get("grad_outputs", kwargs.get("grad_tensors")))
        given = args[1] if given is None and len(args) > 1 and func is not torch.autograd.grad else given
        recompute = type(error).__name__ == "CheckpointError" or isinstance(
            error, getattr(torch.utils.checkpoint, "CheckpointError", ())
        )
        return Facts(
            call="grad" if func is torch.autograd.grad else "backward",
            kind="recompute" if recompute else "grad" if func is torch.autograd.grad else "backward",
            error=type(error).__name__, step=self._step(), site=past.site(site), windows=past.windows,
            reached=tuple(reached), broken=tuple(broken), older=older,
            scalar=given is not None or all(root.numel() == 1 for root in roots),
            rooted=all(root.requires_grad for root in roots),
            unreached=tuple(
                index for index, each in enumerate(wanted) if not _reaches(each, leaves, reached, past)
            ),
            flags=("allow_unused",) * bool(kwargs.get("allow_unused")) + ("distributed",) * _is_distributed(),
            custom=None if custom is None else custom[:3],
            custom_site=None if custom is None else tape.sites.at_line(*custom[3:], f"{custom[0]}.backward"),
        )  # fmt: skip

    def _call(
        self, func: Any, error: Exception, site: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Facts | None:
        name = plain_name(func)
        tensors = [tensor for _, tensor in tensors_in(args, kwargs)]
        if not tensors:
            return None
        transform = transforms_active()
        read = func in READS
        out = kwargs.get("out")
        written = out if isinstance(out, torch.Tensor) else args[0] if _writes(name) and args else None
        many = read and tensors[0].numel() != 1
        inference = any(each.is_inference() for each in tensors) and not torch.is_inference_mode_enabled()
        if not (transform or many or inference or isinstance(written, torch.Tensor)):
            return None  # an ordinary mistake (sizes, types), whose message says it all
        past = Past(self._tape)
        target = written if isinstance(written, torch.Tensor) else tensors[0]
        return Facts(
            call=READS[func] if read else name,
            kind="read" if read else "write" if isinstance(written, torch.Tensor) else "op",
            error=type(error).__name__, step=self._step(), site=past.site(site), windows=past.windows,
            target=past.target(target), arguments=tuple(past.target(each) for each in tensors[:16]),
            grad_mode=self._tape.grad, transform=transform,
        )  # fmt: skip

    def _module(self, module: Any, error: Exception, site: int | None) -> Facts | None:
        if not isinstance(module, torch.nn.parallel.DistributedDataParallel):
            return None
        past = Past(self._tape)
        names = tuple(name for name, each in module.module.named_parameters() if each.requires_grad)
        flags = [flag for flag in ("find_unused_parameters", "static_graph") if getattr(module, flag, False)]
        return Facts(
            call=type(module).__name__, kind="module", error=type(error).__name__, step=self._step(),
            site=past.site(site), windows=past.windows, parameters=names, flags=tuple(flags),
        )  # fmt: skip

    def _compiler(self, error: Exception, lines: list[tuple[str, int, str]], called: int | None) -> Facts | None:
        sites = self._tape.sites
        followed = next((each for each in reversed(lines) if sites.is_program(each[0])), None)
        past = Past(self._tape)
        inside = type(error).__name__ == "UncapturedHigherOrderOpError"
        return Facts(
            call="the tracer" if type(error).__module__.startswith("torch.fx") else "the compiler",
            kind="compile", error=type(error).__name__, step=self._step(),
            site=sites.at_line(*followed) if followed is not None else past.site(called), windows=past.windows,
            flags=("inside",) * inside,
        )  # fmt: skip


def _reaches(tensor: torch.Tensor, leaves: set[int], reached: list[tuple[int, int]], past: Past) -> bool:
    if tensor.grad_fn is None:
        return id(tensor) in leaves
    place = past.find(tensor.grad_fn)
    return place is None or place in reached


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _writes(name: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return name.endswith("_") and not name.endswith("__")
