"""Backward passes: `backward()` and `autograd.grad()` as rows, and what flows through their nodes if asked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from plait._torch import node_number, pop_mode, push_mode, sequence_number, skip_one_hop, transforms_active
from plait.graph._rows import BackwardRow, OpRow
from plait.recorder._entries import PORTS
from plait.recorder._new_row import Named, new_row, place_result
from plait.recorder._opaque import OpaqueCall
from plait.recorder._tape import SMALL_TENSOR, Tape


class NodeStats(NamedTuple):
    """What one backward node did in one pass: see `BackwardStats` of the recording."""

    backward: int
    place: int
    nth: int
    name: str
    norm_in: float | None
    norm_out: float | None
    ns: int
    first_nonfinite: bool


class _Call(NamedTuple):
    """A call that starts a pass."""

    func: Any
    roots: list[torch.Tensor]
    inputs: list[torch.Tensor]
    retain_graph: bool
    create_graph: bool

    @property
    def how(self) -> str:
        return "grad" if self.func is torch.autograd.grad else "backward"


class BackwardWatch:
    """Handles the calls that start autograd's engine.

    The engine takes over the mode stack that is in force when it starts, so the mode goes back on while the real call
    runs: that makes the backward of custom Functions and the recomputation of checkpoints visible.
    """

    def __init__(self, tape: Tape, mode: Any) -> None:
        self._tape = tape
        self._mode = mode
        self.on_done: Any = None  # called with the site of a pass that is over
        self.count = 0  # in the step under way
        self.ever = False
        self.loss: float | None = None
        self.stats: list[NodeStats] = []

    def specials(self) -> dict[Any, Any]:
        """The handlers, by function."""
        return {
            torch.Tensor.backward: self._call,
            torch.autograd.backward: self._call,
            torch.autograd.grad: self._call,
        }

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> Any:
        tape = self._tape
        if tape.backward_depth:  # `Tensor.backward` calls `autograd.backward`; a checkpoint calls it inside a pass
            return self._opened(func, args, kwargs)
        call = _Call(func, *pass_arguments(func, args, kwargs))
        site, watched = tape.guarded(self._begin, call, frame) or (None, [])
        tape.backward_depth += 1
        tape.circumstances |= 2
        before = sequence_number()
        try:
            result = self._opened(func, args, kwargs)
        except BaseException as error:
            tape.failed(func, error, site, args, kwargs)
            raise
        finally:
            tape.backward_depth -= 1
            tape.circumstances &= ~2
            for handle in watched:
                handle.remove()
            if call.how == "backward":
                tape.guarded(tape.leaves.backward_ends)
            self.count += 1
            self.ever = True
        tape.guarded(self._end, call, site, before, result)
        return result

    def _begin(self, call: _Call, frame: Any) -> tuple[int | None, list[Any]]:
        """Write the pass down; (its site, the hooks that watch it)."""
        tape = self._tape
        site = tape.calls.site_of(frame)
        if transforms_active():
            return site, []
        for root in (*call.roots, *call.inputs):
            tape.entry(root)
        roots = tuple(tape.reference(root) for root in call.roots)
        inputs = tuple(tape.reference(each) for each in call.inputs)
        adds = tape.leaves.backward_begins() if call.how == "backward" else False
        tape.append(BackwardRow(call.how, site, roots, inputs, call.retain_graph, call.create_graph, adds))
        measure = tape.values == "stats"
        self._note_loss(call.roots, measure)
        watch = measure or (tape.sampling and tape.samples)
        return site, list(self._watch(call.roots, measure)) if watch else []

    def _end(self, call: _Call, site: int | None, before: int, result: Any) -> None:
        """Write down what came out of the pass: gradients that were handed out, graphs that lie on leaves now."""
        tape = self._tape
        if call.how == "grad":
            given = call.roots, call.inputs
            here = len(tape.tokens)
            made = new_row(tape, None, Named("grad"), given, {}, result, site, call.create_graph, before)
            place_result(tape, made, here, before, given, {}, result)
        elif call.create_graph:
            entries = tuple(tape.entry(root) for root in call.roots)
            tape.opaque.append(OpaqueCall("backward", site, None, entries, before, sequence_number()))
        self.on_done(site, call.create_graph)

    def _opened(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        push_mode(self._mode)
        try:
            return skip_one_hop(func, (), args, kwargs)
        finally:
            pop_mode()

    def _note_loss(self, roots: Sequence[torch.Tensor], measure: bool) -> None:
        if (
            len(roots) == 1
            and type(roots[0]) is torch.Tensor
            and roots[0].numel() == 1
            and (roots[0].device.type == "cpu" or measure)
        ):
            value = roots[0].item()
            self.loss = float(value) if isinstance(value, (int, float)) else None

    def _watch(self, roots: Sequence[torch.Tensor], measure: bool) -> Iterator[Any]:
        """Hooks on every node from the roots on. They hold numbers only: a hook that held its node would leak it."""
        number = self.count
        start = time.perf_counter_ns()
        bad: list[bool] = []
        stack = [root.grad_fn for root in roots if root.grad_fn is not None]
        seen = set(stack)
        while stack:
            node = stack.pop()
            for parent, _ in node.next_functions:
                if parent is not None and parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
            found = self._place(node)
            if found is None:
                continue
            place, nth, name, outputs = found
            if measure and outputs and self._tape.sampling:
                yield node.register_prehook(self._sample(place, outputs))
            if measure:
                yield node.register_hook(self._measure(number, place, nth, name, start, bad))
            elif outputs:
                yield node.register_prehook(self._sample(place, outputs))

    def _place(self, node: Any) -> tuple[int, int, str, tuple[int, ...]] | None:
        """(place of its row, which of its nodes, name, the outputs whose grad_fn it is)."""
        tape = self._tape
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            entry = tape.ids.get(id(variable))
            if entry is None or entry[0]() is not variable:
                return None
            place = entry[1] if entry[1] >= 0 else tape.input_places[-entry[1] - 1]
            return place, -1, "AccumulateGrad", (entry[2] % PORTS,)
        found = tape.find_node(node_number(node))
        if found is None:
            return None
        place, nth = found
        row = tape.rows[tape.tokens[place]].row
        outputs = (
            [index for index, each in enumerate(row.outputs) if each.grad_fn == nth] if isinstance(row, OpRow) else []
        )
        return place, nth, node.name(), tuple(outputs)

    def _sample(self, place: int, outputs: tuple[int, ...]) -> Any:
        tape, samples = self._tape, self._tape.samples

        def keep(gradients: Sequence[torch.Tensor | None]) -> None:
            tape.guarded(take, gradients)

        def take(gradients: Sequence[torch.Tensor | None]) -> None:
            for output, gradient in zip(outputs, gradients):
                if gradient is None or gradient.layout is not torch.strided or gradient.device.type != "cpu":
                    continue
                if gradient.numel() <= SMALL_TENSOR:
                    samples.append((place, output, "gradient", gradient.tolist()))

        return keep

    def _measure(self, number: int, place: int, nth: int, name: str, start: int, bad: list[bool]) -> Any:
        tape, stats = self._tape, self.stats

        def measure(into: Sequence[torch.Tensor | None], out: Sequence[torch.Tensor | None]) -> None:
            tape.guarded(take, into, out)

        def take(into: Sequence[torch.Tensor | None], out: Sequence[torch.Tensor | None]) -> None:
            now = time.perf_counter_ns() - start
            norm_in, norm_out = _norm(out), _norm(into)  # a node's "inputs" are what it hands on
            first = not bad and not all(each is None or math.isfinite(each) for each in (norm_in, norm_out))
            if first:
                bad.append(True)
            stats.append(NodeStats(number, place, nth, name, norm_in, norm_out, now, first))

        return measure


def _norm(gradients: Sequence[torch.Tensor | None]) -> float | None:
    floating = [
        each.detach()
        for each in gradients
        if each is not None and each.is_floating_point() and each.layout is torch.strided
    ]
    if not floating:
        return None
    return float(sum(torch.linalg.vector_norm(each.double()).item() ** 2 for each in floating) ** 0.5)


def pass_arguments(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor], bool, bool]:
    """(roots, inputs, retain_graph, create_graph) of a call of `backward` or `grad`."""
    if len(args) == 1 and not kwargs and isinstance(args[0], torch.Tensor):  # loss.backward(), as nearly always
        return [args[0]], [], False, False
    if func is torch.autograd.grad:
        names = ["outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"]
    else:
        names = ["outputs", "gradient", "retain_graph", "create_graph", "inputs"]
    given = dict(zip(names, args)) | kwargs
    roots = given.get("outputs", given.get("tensors"))
    create = bool(given.get("create_graph"))
    retain = given.get("retain_graph")
    return _tensors(roots), _tensors(given.get("inputs")), create if retain is None else bool(retain), create


def _tensors(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, (list, tuple)):
        return [each for each in given if isinstance(each, torch.Tensor)]
    return []
