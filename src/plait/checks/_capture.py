"""One run of the model, with the results of all its operations: what two runs are compared by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from plait._torch import DisableTorchFunction
from plait.graph import Site
from plait.recorder import record
from plait.recording import Recording


@dataclass(frozen=True)
class Result:
    """A tensor that an operation made: which operation, where, from which earlier results."""

    op: str
    site: Site | None
    value: torch.Tensor
    sources: tuple[int, ...]
    module: str = ""


@dataclass
class Run:
    """What the model returned, everything it computed on the way, and the recording."""

    output: list[torch.Tensor]
    results: list[Result]
    recording: Recording
    error: Exception | None
    needed: frozenset[int] = frozenset()


class _Capture(TorchFunctionMode):
    """Keeps a copy of every result. It lies above the recording's mode, which knows where each one was made."""

    def __init__(self, recorder: Any, most: int) -> None:
        super().__init__()
        self._tape = recorder.tape
        self._most = most
        self.results: list[Result] = []
        self.numbers: dict[int, tuple[torch.Tensor, int]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if len(self.results) >= self._most:
            return result
        for tensor in _tensors(result):
            entry = self._tape.ids.get(id(tensor))
            if entry is None or entry[0]() is not tensor or entry[1] < 0:
                continue
            row = self._tape.rows[self._tape.tokens[entry[1]]].row
            if row.kind != "op":
                continue
            sources = tuple(self.numbers[id(each)][1] for each in _tensors((args, kwargs)) if id(each) in self.numbers)
            site = None if row.site is None else _site(self._tape, row.site)
            with DisableTorchFunction():
                kept = tensor.detach().clone()
            self.numbers[id(tensor)] = tensor, len(self.results)  # the tensor stays alive, so its id stays its own
            scope = None if row.scope is None else self._tape.scopes.bodies[row.scope]
            module = "" if scope is None else f"{scope[1]} `{scope[0]}`" if scope[0] else scope[1]
            self.results.append(Result(row.op, site, kept, sources, module))
        return result


def run(
    model: Callable[..., Any], arguments: tuple[Any, ...], seed: int, most: int = 20_000
) -> Run:  # fmt: skip
    """Call the model once and keep everything."""
    torch.manual_seed(seed)
    recorder = record()
    error: Exception | None = None
    output: Any = None
    with recorder:
        capture = _Capture(recorder, most)
        try:
            with capture:
                output = model(*arguments)
        except Exception as raised:
            error = raised
    with torch.no_grad():
        flat = [each.detach().clone() for each in _tensors(output)]
    ends = [capture.numbers[id(each)][1] for each in _tensors(output) if id(each) in capture.numbers]
    return Run(flat, capture.results, recorder, error, _needed(capture.results, ends))


def _needed(results: list[Result], ends: list[int]) -> frozenset[int]:
    """The results from which these were computed, and these."""
    found, stack = set(ends), list(ends)
    while stack:
        for source in results[stack.pop()].sources:
            if source not in found:
                found.add(source)
                stack.append(source)
    return frozenset(found)


def _tensors(item: Any) -> list[torch.Tensor]:
    leaves = _pytree.tree_leaves(item)
    return [each for each in leaves if isinstance(each, torch.Tensor) and not each.is_sparse]


def _site(tape: Any, number: int) -> Site:
    made: Any = Site
    site: Site = made(number, *tape.sites.bodies[number])
    return site
