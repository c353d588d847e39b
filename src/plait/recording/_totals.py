"""Sums over a whole run, made by SQLite from the table of rows, so that they cost the same for any number of steps."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from plait.recording._floats import floating
from plait.recording._reader import Recording


class OpTotal(NamedTuple):
    """Operations of one kind at one place: how often they ran in the run, and the nanoseconds they took."""

    op: str
    site: int | None
    cut: str | None
    writes: bool
    in_backward: bool
    runs: int
    ns: int


class ReadTotal(NamedTuple):
    """Reads of one kind at one place with one outcome (None for anything but a bool)."""

    how: str
    site: int | None
    outcome: bool | None
    comparison: str | None
    runs: int


class OtherTotal(NamedTuple):
    """Backward passes (`what` is how they were called), mode changes and events at one place."""

    kind: str
    what: str
    detail: str
    site: int | None
    runs: int
    ns: int


def op_totals(recording: Recording) -> list[OpTotal]:
    """What operations ran where, over the whole run."""
    found = recording._all(
        "SELECT json_extract(body, '$[0]', '$[1]', '$[10]', '$[9]', '$[4]') AS what, SUM(count), SUM(ns) FROM row"
        " WHERE kind = 'op' AND count > 0 GROUP BY what"
    )
    totals: dict[tuple[str, int | None, str | None, bool, bool], list[int]] = {}
    for what, count, ns in found:
        op, site, cut, writes, in_backward = json.loads(what)
        sums = totals.setdefault((op, site, cut, bool(writes), bool(in_backward)), [0, 0])
        sums[0] += count
        sums[1] += ns or 0
    return [OpTotal(*key, *sums) for key, sums in totals.items()]


def read_totals(recording: Recording) -> list[ReadTotal]:
    """What was read where and how it fell, over the whole run."""
    found = recording._all(
        "SELECT json_extract(body, '$[0]', '$[1]', '$[3]', '$[4]') AS what, SUM(count) FROM row"
        " WHERE kind = 'read' AND count > 0 GROUP BY what"
    )
    return [ReadTotal._make([*json.loads(what), count]) for what, count in found]


def other_totals(recording: Recording) -> list[OtherTotal]:
    """Backward passes, mode changes and events, over the whole run."""
    found = []
    for kind, paths in (("backward", "'$[0]', '$[4]', '$[1]'"), ("mode", "'$[0]', '$[1]', '$[2]'"),
                        ("event", "'$[0]', '$[1]', '$[2]'")):  # fmt: skip
        for what, count, ns in recording._all(
            f"SELECT json_extract(body, {paths}) AS what, SUM(count), SUM(ns) FROM row"
            f" WHERE kind = '{kind}' AND count > 0 GROUP BY what"
        ):
            name, detail, site = json.loads(what)
            found.append(OtherTotal(kind, name, _text(detail), site, count, ns or 0))
    return found


def read_rows(recording: Recording) -> set[int]:
    """The numbers of the rows that are reads."""
    return {number for (number,) in recording._all("SELECT id FROM row WHERE kind = 'read'")}


def step_reads(recording: Recording, graphs: Collection[int], every: int = 1) -> Iterator[tuple[int, int, list[Any]]]:
    """(step, graph, reads as lists in the order of `Read`) of each `every`-th step, if it built one of `graphs`."""
    wanted = set(graphs)
    last = -1
    while found := recording._all(
        "SELECT id, graph, reads FROM step WHERE id > ? AND id % ? = 0 AND reads IS NOT NULL ORDER BY id LIMIT 1000",
        last, every,
    ):  # fmt: skip
        last = found[-1][0]
        for step, graph, reads in found:
            if graph in wanted:
                yield step, graph, json.loads(reads)


def _text(item: object) -> str:
    if isinstance(item, bool) or (isinstance(item, int) and item in (0, 1)):
        return "on" if item else "off"
    return "" if item is None else str(item)


class StepGroup(NamedTuple):
    """The steps of one kind that built one graph (None: not kept); times in nanoseconds."""

    graph: int | None
    kind: str
    steps: int
    first_step: int
    last_step: int
    ns: int
    operations_ns: int
    incomplete: int


def step_groups(recording: Recording) -> list[StepGroup]:
    """All steps in groups, in the order of their first step: one pass over the file, however long the run was."""
    return list(
        map(
            StepGroup._make,
            recording._all(
                "SELECT graph, kind, COUNT(*), MIN(id), MAX(id), SUM(ns), SUM(operations_ns), SUM(NOT complete)"
                " FROM step GROUP BY graph, kind ORDER BY MIN(id)"
            ),
        )
    )


class BuiltGraph(NamedTuple):
    """A distinct graph in numbers; `program` is the hash of its program."""

    graph: int
    program: str
    nodes: int
    operations: int
    decisions: int
    saved_bytes: int


def built_graphs(recording: Recording) -> list[BuiltGraph]:
    """The distinct graphs in numbers."""
    found = recording._all("SELECT id, program, nodes, operations, decisions, IFNULL(saved_bytes, 0) FROM graph")
    return list(map(BuiltGraph._make, found))


def losses(recording: Recording) -> tuple[float, float] | None:
    """The first and the last loss of the run."""
    ends = [
        recording._all(f"SELECT loss FROM step WHERE loss IS NOT NULL ORDER BY id {direction} LIMIT 1")
        for direction in ("ASC", "DESC")
    ]
    if not ends[0]:
        return None
    first, last = (floating(rows[0][0]) for rows in ends)
    return None if first is None or last is None else (first, last)
