"""The course of a step: in which region each of its rows happened.

Both the graph and the survey of a run start from it, and a recording works it out once for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.graph._executions import Move, executions
from plait.graph._model import Region
from plait.graph._regions import RegionBuilder
from plait.graph._rows import EnterRow, Row
from plait.graph._site import Site

Rows = Mapping[int, Row] | Sequence[Row]


@dataclass(frozen=True, slots=True)
class Course:
    """`region` has one entry a row: where it happened, outside of all functions None. `same` is what `executions`
    says; `loops` has the site at which each loop region began, `still_open` the loops that the step did not end."""

    region: list[int | None]
    same: dict[int, bool | None]
    regions: tuple[Region, ...]
    loops: dict[int, int]
    still_open: frozenset[int]


def course(tokens: Sequence[int], rows: Rows, moves: Mapping[int, Move], sites: Mapping[int, Site]) -> Course:
    """The course of the step that is written as the row numbers `tokens`; `moves` has the move of each.

    >>> rows = [EnterRow("f", None, 3)]
    >>> found = course([0], rows, moves_of([0], rows), {})
    >>> found.region, found.regions[0].label
    ([None], 'f')
    """
    listed = [moves[token] for token in tokens]
    same = executions(listed)
    builder = RegionBuilder(sites)
    at, part_of = builder.at, same.get
    region: list[int | None] = []
    append = region.append
    for place, (site, key, depth) in enumerate(listed):
        if depth > 0:
            row = rows[tokens[place]]
            assert isinstance(row, EnterRow)
            append(builder.enter(row, part_of(place, False)))
        elif depth < 0:
            append(None)
            builder.leave(-depth)
        elif key is None:  # what has no place of its own in the order of a loop
            append(at(None))
        else:
            append(at(site, part_of(place, False)))
    still_open = builder.open_loops()
    return Course(region, same, builder.finish(), builder.loop_sites, still_open)


# Where in its fields a row says its site; what happens there is always the first field.
_SITE = {"op": 1, "read": 1, "backward": 1, "event": 2, "enter": 1}


def move(kind: str, fields: Sequence[Any]) -> Move:
    """What a row, or its fields as they are written, means to `executions`.

    >>> move("return", [2]), move("enter", ["f", 7, 3])
    ((None, None, -2), (7, 'f', 1))
    """
    if kind == "return":
        return None, None, -fields[0]
    if kind not in _SITE:  # a change of mode is noticed at the next call, whose site it carries
        return None, None, 0
    return fields[_SITE[kind]], fields[0], 1 if kind == "enter" else 0


def moves_of(tokens: Iterable[int], rows: Rows) -> dict[int, Move]:
    """The move of each distinct row."""
    return {token: move(rows[token].kind, rows[token]) for token in dict.fromkeys(tokens)}
