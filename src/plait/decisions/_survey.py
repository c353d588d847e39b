"""Survey: the structure of a run, read from its distinct graphs as lists of row numbers, without building them.

A run can hold tens of thousands of distinct graphs. Totals come from the table of rows and are exact; what only the
order of a graph can tell (trip counts, sizes, where two graphs part) is read from the most frequent graphs and from
the smallest and the largest of every program, within a budget. `complete` says whether that was all of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from plait.graph._rows import Row
from plait.graph._site import Loop, Site
from plait.recording import BuiltGraph, OpTotal, Recording, StepGroup, built_graphs, op_totals, step_groups

TOKEN_BUDGET = 40_000


@dataclass(frozen=True, slots=True)
class LoopTrips:
    """A loop of the source: its fewest and most rounds in the graphs that were read.

    `around` loops hold the steps (a training loop): a step sees only its own part of them, so their trips say
    nothing; they are None then, and where an enclosing loop makes the count ambiguous.
    """

    file: str
    line: int
    header: str
    kind: str
    trips: tuple[int, int] | None
    around: bool


class Built(NamedTuple):
    """A distinct graph and how often it was built. `program` numbers the programs in the order of their first step."""

    graph: int
    program: int
    kind: str
    steps: int
    first_step: int
    nodes: int
    operations: int
    decisions: int
    saved_bytes: int

    @property
    def size(self) -> int:
        """Roughly how many rows it is written in."""
        return self.nodes + self.decisions


class Survey:
    """Reads a recording once; every table and view of a run starts from it."""

    def __init__(self, recording: Recording, budget: int = TOKEN_BUDGET) -> None:
        self.recording = recording
        self.rows = recording.rows
        self.sites = recording.sites
        self.types = recording.types
        self.groups = step_groups(recording)
        self.last_step = max((group.last_step for group in self.groups), default=-1)
        self.graphs = _built(self.groups, built_graphs(recording))
        self.by_graph = {each.graph: each for each in self.graphs}
        self._executions: dict[int, list[int]] = {}  # site -> how often it ran, operations and reads there
        self._trips_of: dict[int, dict[tuple[str, int, str], list[int | None]]] = {}
        self.tokens: dict[int, array[int]] = {graph: recording.tokens(graph) for graph in self._choose(budget)}
        self.complete = len(self.tokens) == len(self.graphs)

    @cached_property
    def programs(self) -> dict[int, list[Built]]:
        """The distinct graphs by program, most frequent first."""
        groups: dict[int, list[Built]] = {}
        for built in self.graphs:
            groups.setdefault(built.program, []).append(built)
        for group in groups.values():
            group.sort(key=lambda built: (-built.steps, built.first_step))
        return groups

    def _choose(self, budget: int) -> list[int]:
        chosen: dict[int, None] = {}
        for group in sorted(self.programs.values(), key=lambda each: -sum(built.steps for built in each))[:100]:
            for end in (group[0], min(group, key=_size), max(group, key=_size)):
                chosen.setdefault(end.graph)
        budget -= sum(self.by_graph[graph].size for graph in chosen)
        for built in sorted(self.graphs, key=lambda each: -each.steps):
            if built.graph not in chosen:
                budget -= built.size
                if budget < 0:
                    break
                chosen[built.graph] = None
        return list(chosen)

    def items(self, graph: int) -> Iterator[tuple[int, Row]]:
        """The rows of a graph, in order, with their numbers."""
        rows = self.rows
        for token in self.tokens[graph]:
            yield token, rows[token]

    @cached_property
    def loops(self) -> tuple[LoopTrips, ...]:
        """Every loop that ran, in the order of the source."""
        trips: dict[tuple[str, int, str], list[int | None]] = {}
        kinds: dict[tuple[str, int, str], str] = {}
        around: set[tuple[str, int, str]] = set()
        for graph in self.tokens:
            of_graph = self._trips_of[graph] = {}
            for key, kind, count, open_at_end in self._trips(graph):
                trips.setdefault(key, []).append(count)
                of_graph.setdefault(key, []).append(count)
                kinds[key] = kind
                if open_at_end and not self._ends_the_run(graph):
                    around.add(key)
        found = []
        for key in sorted(trips):
            known = [count for count in trips[key] if count is not None]
            whole = known and key not in around and len(known) == len(trips[key])
            span = (min(known), max(known)) if whole else None
            found.append(LoopTrips(*key, kinds[key], span, key in around))
        return tuple(found)

    def _ends_the_run(self, graph: int) -> bool:
        variant = self.by_graph[graph]
        return variant.steps <= 1 and variant.first_step == self.last_step

    def graph_trips(self, graph: int) -> dict[tuple[str, int, str], list[int | None]]:
        """The rounds of every loop in one graph that was read, without those around the steps."""
        around = {(loop.file, loop.line, loop.header) for loop in self.loops if loop.around}
        return {key: counts for key, counts in self._trips_of[graph].items() if key not in around}

    def _trips(self, graph: int) -> Iterator[tuple[tuple[str, int, str], str, int | None, bool]]:
        """(file, line and header; kind; trips; still open at the end) of every run of a loop in a graph."""
        way = self.recording.course(graph)
        self._count_executions(graph, way.same)
        for number, first in way.loops.items():
            region, site = way.regions[number], self.sites[first]
            yield (
                (site.file, region.line, region.label),
                _kind(site, region.line),
                region.trips,
                number in way.still_open,
            )

    def _count_executions(self, graph: int, same: dict[int, bool | None]) -> None:
        steps = self.by_graph[graph].steps
        tokens = self.tokens[graph]
        moves = self.recording.moves(tokens)
        for token, times in Counter(tokens).items():
            site, key, _ = moves[token]
            if site is not None and key is not None:
                counts = self._executions.setdefault(site, [0, 0])
                counts[0] += steps * times
                counts[1] += steps * times if self.fields(token)[0] in ("op", "read") else 0
        for place, parts in same.items():
            site, key, _ = moves[tokens[place]]
            if parts is not False and site is not None and key is not None:
                self._executions[site][0] -= steps

    def executions(self, site: int, rows: int) -> int:
        """How often a place ran, if `rows` operations and reads happened there: one execution may hold several.

        Exact if all graphs were read; otherwise as in those that were.
        """
        self.loops  # noqa: B018 - counts them
        runs, seen = self._executions.get(site, (0, 0))
        return round(rows * runs / seen) if seen else rows

    def fields(self, token: int) -> tuple[str, list[Any]]:
        """The kind of a row and its fields as they are written."""
        return self.recording.row_fields(token)

    @cached_property
    def op_totals(self) -> list[OpTotal]:
        """What operations ran where, over the whole run."""
        return op_totals(self.recording)

    def site(self, number: int | None) -> Site | None:
        """The place in the source, or None."""
        return None if number is None else self.sites[number]


def _size(built: Built) -> int:
    return built.size


def _built(groups: list[StepGroup], graphs: list[BuiltGraph]) -> list[Built]:
    """The graphs that some step built, in the order of their first step."""
    facts = {each.graph: each for each in graphs}
    programs: dict[str, int] = {}
    found: dict[int, Built] = {}
    for graph, kind, count, first, *_ in groups:
        if graph is None or graph not in facts:
            continue
        if graph in found:  # built by steps of two kinds
            found[graph] = found[graph]._replace(steps=found[graph].steps + count)
            continue
        _, program, *numbers = facts[graph]
        number = programs.setdefault(program, len(programs))
        found[graph] = Built(graph, number, kind, count, first, *numbers)
    return list(found.values())


def _kind(site: Site, line: int) -> str:
    matching: list[Loop] = [loop for loop in site.loops if loop.line == line]
    return matching[0].kind if matching else "for"
