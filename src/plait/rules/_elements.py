"""The elements of small values and of their gradients, where the recording kept them; and measured norms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from plait.graph import Node
from plait.recording import BackwardStats
from plait.rules._case import Case


class Elements:
    """What is known of the numbers in one graph: samples of small tensors and, with `--values stats`, norms."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.values: dict[int, list[Any]] = {}
        self.gradients: dict[int, list[list[Any]]] = {}
        graph = case.graph
        for sample in case.run.recording.samples(case.number):
            node = graph.nodes[sample.node]
            if 0 <= sample.output < len(node.outputs):
                value = node.outputs[sample.output]
                flat = list(_flat(sample.elements))
                if sample.what == "value":
                    self.values.setdefault(value, flat)
                else:
                    self.gradients.setdefault(value, []).append(flat)

    @cached_property
    def stats(self) -> list[BackwardStats]:
        """Norms of the first step that built the graph."""
        steps = self.case.steps
        return list(self.case.run.recording.backward_stats(steps[0])) if steps else []

    def gradient(self, value: int) -> list[Any] | None:
        """The gradient with respect to a value in the first pass that gave it one."""
        found = self.gradients.get(value)
        return found[0] if found else None

    def finite(self, value: int) -> bool | None:
        """Whether a value is finite; None if it is not known."""
        found = self.values.get(value)
        return None if found is None else all(is_finite(each) for each in found)

    def finite_gradient(self, value: int) -> bool | None:
        """Whether the gradient with respect to a value is finite; None if it is not known."""
        found = self.gradient(value)
        return None if found is None else all(is_finite(each) for each in found)


def elements(case: Case) -> Elements:
    """The numbers of a graph; read once."""
    kept: Elements | None = getattr(case, "_elements", None)
    if kept is None:
        kept = Elements(case)
        case._elements = kept  # type: ignore[attr-defined]
    return kept


def is_finite(number: Any) -> bool:
    """Whether a number is neither NaN nor infinite."""
    return not isinstance(number, float) or math.isfinite(number)


def largest(numbers: list[Any]) -> float:
    """The largest absolute value."""
    return max((abs(float(each)) for each in numbers if isinstance(each, (int, float))), default=0.0)


def round_of(case: Case, node: Node) -> tuple[str, int, int] | None:
    """(header, number of the round from 0, rounds) of the innermost loop around a node."""
    regions = case.regions_above(node.region)
    for region in regions:
        if region.kind == "iteration" and region.parent is not None:
            loop = case.graph.regions[region.parent]
            return loop.label, region.index, len(case.loops.get(loop.id, ())) or (loop.trips or 0)
    return None


def _flat(item: Any) -> Iterator[Any]:
    if isinstance(item, list):
        for each in item:
            yield from _flat(each)
    else:
        yield item
