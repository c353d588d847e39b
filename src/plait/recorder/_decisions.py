"""Decisions: where Python asked a tensor for its value."""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch

from plait.graph._rows import ReadRow
from plait.recorder._entries import PORTS, Earlier
from plait.recorder._functions import READS
from plait.recorder._tape import Tape


def make_reads(tape: Tape) -> dict[Any, Any]:
    """The handlers of every function that reads a value."""
    return {func: _reader(tape, how) for func, how in READS.items()}


def _reader(tape: Tape, how: str) -> Any:
    is_bool = how in ("bool", "contains", "equal", "allclose")
    learned: set[int] = set()
    # (site, distance, port, outcome, comparison) -> the counts of its row
    known_rows: dict[tuple[Any, ...], list[Any]] = {}
    ids, calls = tape.ids, tape.calls

    def read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> Any:
        site = None
        try:
            site = calls.site_of(frame)
        except Exception as error:
            tape.broken(error)
        tensor = args[0]
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            tape.failed(func, error, site, args, kwargs)
            raise
        if isinstance(tensor, torch.Tensor) and not isinstance(result, torch.Tensor):
            try:
                note(tensor, result, site)
            except Exception as error:
                tape.broken(error)
        return result

    def note(tensor: torch.Tensor, result: Any, site: int | None) -> None:
        if site is not None and site not in learned:
            learned.add(site)
            tape.sites.read_at(site)
        entry = ids.get(id(tensor))
        if entry is None or entry[0]() is not tensor or (entry[3] is not None and entry[3] != tensor._version):
            entry = tape.entry(tensor)
        place = entry[1]
        distance = len(tape.tokens) - place if place >= 0 else place
        outcome = result if is_bool and type(result) is bool else None
        left = right = symbol = None
        compared = tape.compared
        if compared is not None and is_bool:
            if compared[0] == place:
                _, left, right, symbol = compared
            tape.compared = None
        key = (site, distance, entry[2], outcome, symbol)
        known = known_rows.get(key)
        if known is None:
            row = ReadRow(how, site, (distance, entry[2] % PORTS), outcome, symbol)
            known = known_rows[key] = tape.counts[tape.number_of(row)]
        known[2] += 1
        tape.tokens.append(known[0])
        tape.numbers.append(tape.numbers[-1] if tape.numbers else tape.first_number)
        tape.times.append(0)
        value = result if type(result) in (bool, int, float) else None
        tape.reads.append((value, left, right))

    return read


def make_gradient_look(tape: Tape) -> dict[Any, Any]:
    """The handler of `tensor.grad`: no operation, but what it hands out is known by name from then on."""

    def look(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> Any:
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and id(result) not in tape.ids:
            owner = tape.guarded(tape.name_of, args[0])
            tape.earlier[id(result)] = Earlier(ref(result), None, None if owner is None else f"{owner}.grad")
        elif result is None and tape.leaves.passes and not args[0].is_leaf and tape.knows(args[0]):
            tape.guarded(note_missing, args[0], frame)
        return result

    def note_missing(tensor: torch.Tensor, frame: Any) -> None:
        """A result was asked for its gradient, which only leaves keep."""
        tape.entry(tensor)
        tape.event("grad_of_result", tape.calls.site_of(frame), (tensor,))

    getter: Any = torch.Tensor.grad
    return {getter.__get__: look}


def make_mode_switch(tape: Tape) -> Any:
    """The handler of `set_grad_enabled`, which `no_grad` and `enable_grad` call on their way in and out."""

    def switched(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> Any:
        result = func(*args, **kwargs)
        enabled = torch.is_grad_enabled()
        if enabled is not tape.grad and not torch.is_inference_mode_enabled():
            tape.grad = enabled
            tape.guarded(tape.mode_switched, enabled, frame)
        return result

    return switched
