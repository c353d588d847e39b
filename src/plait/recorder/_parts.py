"""Parts: what is on the tape, cut into several steps after the fact."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from plait.graph._rows import BackwardRow, InputRow, ReadRow
from plait.graph._split import Part, split
from plait.recorder._backward import NodeStats
from plait.recorder._cuts import ON_THE_WAY
from plait.recorder._tape import Tape


class StepPart(NamedTuple):
    """One of the steps, with its share of everything that the tape holds beside its rows."""

    tokens: array[int]
    times: list[int]
    reads: list[Any]
    samples: list[tuple[Any, ...]]
    kind: str
    start: float
    end: float
    stats: list[NodeStats]
    leaves: tuple[int, ...]  # for each of its inputs the number of the leaf that it is, or -1


def step_parts(
    tape: Tape, cuts: Sequence[int], calls: Sequence[int], stats: Sequence[NodeStats], start: float, now: float
) -> Iterator[StepPart]:
    """The steps between the `cuts`. `calls` are the places of outermost module calls; time is shared by what ran."""
    rows = [tape.rows[token].row for token in tape.tokens]
    inputs = tape.inputs_by_place()
    parts = split(rows, cuts, tape.types, lambda place, output: inputs.get((place, output)))
    reads = list(tape.reads)
    bounds = [0, *cuts, len(rows)]
    weights = [max(1, sum(tape.times[low:high])) for low, high in pairwise(bounds)]
    begun, total = start, sum(weights)
    leaf_at = {(place, 0): leaf for place, leaf in zip(tape.input_places, tape.bound)}
    for part, weight, (low, high) in zip(parts, weights, pairwise(bounds)):
        _drop_the_way(part)
        mine = sum(isinstance(row, ReadRow) for row in part.rows)
        where = {place: here for here, place in enumerate(part.places) if place is not None}
        end = now if high == len(rows) else start + (now - begun) * weight / total
        trained = any(isinstance(row, BackwardRow) for row in part.rows)
        called = any(low <= place < high for place in calls)
        yield StepPart(
            _tokens(tape, part), [0 if place is None else tape.times[place] for place in part.places], reads[:mine],
            [(where[place], *rest) for place, *rest in tape.samples if place in where],
            "train" if trained else "forward" if called else "rest", start, end, _moved(stats, part, where),
            tuple(leaf_at.get(origin, -1) for origin in part.inputs),
        )  # fmt: skip
        del reads[:mine]
        start = end


def _drop_the_way(part: Part) -> None:
    """What ends a step is not that the program left a function or a mode."""
    while part.rows and part.rows[-1].kind in ON_THE_WAY:
        part.rows.pop()
        part.places.pop()


def _tokens(tape: Tape, part: Part) -> array[int]:
    return array(
        "I",
        [
            tape.number_of(row, tape.rows[tape.tokens[place]].offsets if place is not None else ())
            for row, place in zip(part.rows, part.places)
        ],
    )


def _moved(stats: Sequence[NodeStats], part: Part, where: dict[int, int]) -> list[NodeStats]:
    """What was measured in this part. A leaf stands where the part has it as an input, which the cut may have added."""
    input_rows = [here for here, row in enumerate(part.rows) if isinstance(row, InputRow)]
    entered = dict(zip(part.inputs, input_rows))
    places = [entered.get((each.place, 0)) if each.nth < 0 else where.get(each.place) for each in stats]
    return [each._replace(place=here) for each, here in zip(stats, places) if here is not None]
