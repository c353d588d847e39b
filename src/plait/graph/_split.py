"""Cuts a list of rows in two: what came before a place, and what came after it, each standing alone.

The recorder sees where a step began only when it ends (the loop around the optimizer's step tells), so it cuts
afterwards. What the second part used of the first becomes an input of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from plait.graph._rows import (
    AliasRow,
    BackwardRow,
    EnterRow,
    EventRow,
    InputRow,
    ModeRow,
    OpRow,
    ParentRow,
    ReadRow,
    Reference,
    ReturnRow,
    Row,
    TensorType,
)


class Part:
    """Rows of one part, and for each the place it had before the cut (None for rows that the cut added)."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.places: list[int | None] = []
        self.inputs: list[tuple[int, int]] = []  # for each input of the part: (place before the cut, output)


AsInput = Callable[[int, int], InputRow | None]


def split(
    rows: Sequence[Row], cuts: Sequence[int], types: Sequence[TensorType], as_input: AsInput = lambda *_: None
) -> list[Part]:
    """The parts between the `cuts` (rising places, none at 0 or the end).

    `as_input(place, output)` may say what a value is as an input of a later part, if more is known of it than its row.

    >>> from plait.graph._rows import InputRow
    >>> [part.places for part in split([InputRow("data", 0, None, None)] * 2, [1], [])]
    [[0], [1]]
    """
    splitter = _Splitter(rows, types, as_input)
    bounds = [0, *cuts, len(rows)]
    return [splitter.part(start, end) for start, end in pairwise(bounds)]


class _Splitter:
    def __init__(self, rows: Sequence[Row], types: Sequence[TensorType], as_input: AsInput) -> None:
        self._known_as_input = as_input
        self._rows = rows
        self._types = types
        self._input_places = [place for place, row in enumerate(rows) if isinstance(row, InputRow)]
        self._frames: list[EnterRow] = []  # open where the next part begins
        self._mode: ModeRow | None = None

    def part(self, start: int, end: int) -> Part:
        self._start = start
        self._part = part = Part()
        self._local: dict[int, int] = {}  # place before -> place in the part
        self._inputs: dict[tuple[int, int], int] = {}  # (place before, output) -> number of the input
        if start:
            # As a step begins that nobody cut: how gradient recording is switched, then the functions under way.
            if self._mode is not None and not self._mode.enabled:
                self._add(self._mode._replace(site=None), None)
            for depth, frame in enumerate(self._frames):
                self._add(frame if depth else frame._replace(site=None), None)
        for place in range(start, end):
            row = self._rows[place]
            if isinstance(row, EnterRow):
                self._frames.append(row)
            elif isinstance(row, ReturnRow):
                del self._frames[len(self._frames) - row.levels :]
            elif isinstance(row, ModeRow):
                self._mode = row
            elif isinstance(row, InputRow):
                if (place, 0) not in self._inputs:
                    self._inputs[place, 0] = len(self._inputs)
                    self._part.inputs.append((place, 0))
                    self._keep(row, place)
                continue
            self._need(row, place)
            self._keep(self._moved(row, place), place)
        return part

    def _add(self, row: Row, place: int | None) -> None:
        self._part.rows.append(row)
        self._part.places.append(place)

    def _keep(self, row: Row, place: int) -> None:
        self._local[place] = len(self._part.rows)
        self._add(row, place)

    def _target(self, reference: Reference, place: int) -> tuple[int, int]:
        distance, output = reference
        if distance < 0:
            return self._input_places[-distance - 1], 0
        return place - distance, output

    def _need(self, row: Row, place: int) -> None:
        """Make inputs of the values from before the part that the row uses."""
        for reference in _references(row):
            key = self._target(reference, place)
            if key in self._inputs or (key[0] >= self._start and not isinstance(self._rows[key[0]], InputRow)):
                continue
            self._inputs[key] = len(self._inputs)
            self._part.inputs.append(key)
            source = self._rows[key[0]]
            if isinstance(source, InputRow):
                self._add(source, None)
            else:
                self._add(self._known_as_input(*key) or self._as_input(source, key[1]), None)

    def _as_input(self, source: Row, output: int) -> InputRow:
        number = source.outputs[output].type if isinstance(source, OpRow) else getattr(source, "type", 0)
        kind = self._types[number]
        what: Literal["carried", "leaf", "data"] = "data"
        if kind.requires_grad:
            what = "leaf" if kind.leaf else "carried"
        return InputRow(what, number, None, getattr(source, "site", None))

    def _moved(self, row: Row, place: int) -> Row:
        here = len(self._part.rows)

        def moved(reference: Reference) -> Reference:
            key = self._target(reference, place)
            if key in self._inputs:
                return -self._inputs[key] - 1, 0
            return here - self._local[key[0]], key[1]

        def parent(old: ParentRow | None) -> ParentRow | None:
            if old is None or old.how == "old":
                return old
            if old.how in ("leaf", "value"):
                distance, output = moved((old.distance, old.which))
                return old._replace(distance=distance, which=output)
            target = place - old.distance
            if target < self._start:
                return ParentRow("old", 0, 0, old.number)
            return old._replace(distance=here - self._local.get(target, here))

        if isinstance(row, (OpRow, AliasRow)):
            row = row._replace(
                backward=tuple((name, tuple(parent(each) for each in parents)) for name, parents in row.backward)
            )
        if isinstance(row, OpRow):
            return row._replace(arguments=tuple(moved(each) for each in row.arguments))
        if isinstance(row, ReadRow):
            return row._replace(value=moved(row.value))
        if isinstance(row, AliasRow):
            by, grad_fn = row.by, row.grad_fn
            if by is not None:
                by = here - self._local[place - by] if place - by >= self._start else None
            if grad_fn is not None:
                target = place - grad_fn[0]
                grad_fn = (here - self._local[target], grad_fn[1]) if target >= self._start else None
            return row._replace(value=moved(row.value), by=by, grad_fn=grad_fn)
        if isinstance(row, BackwardRow):
            return row._replace(
                roots=tuple(moved(each) for each in row.roots), inputs=tuple(moved(each) for each in row.inputs)
            )
        if isinstance(row, EventRow):
            return row._replace(values=tuple(moved(each) for each in row.values))
        return row


def _references(row: Row) -> list[Reference]:
    if isinstance(row, (OpRow, AliasRow)):
        behind = [
            (each.distance, each.which)
            for _, parents in row.backward
            for each in parents
            if each is not None and each.how in ("leaf", "value")
        ]
        return [*(row.arguments if isinstance(row, OpRow) else [row.value]), *behind]
    if isinstance(row, ReadRow):
        return [row.value]
    if isinstance(row, BackwardRow):
        return [*row.roots, *row.inputs]
    return list(row.values) if isinstance(row, EventRow) else []
