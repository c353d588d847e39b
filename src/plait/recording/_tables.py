"""Tables of a recording file as objects, made when they are looked at: a file may hold 100,000s of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from plait.graph._rows import Row, TensorType, row_from_lists
from plait.graph._site import Branch, Loop, Site, Test

_CHUNK = 256  # rows that are read together


class Written:
    """The lines of a table as they are written, read when they are asked for, with their neighbours."""

    def __init__(self, read: Callable[[int, int], list[tuple[Any, ...]]]) -> None:
        self._read = read
        self._lines: dict[int, tuple[Any, ...]] = {}

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        if number not in self._lines:
            first = number // _CHUNK * _CHUNK
            for found, *line in self._read(first, first + _CHUNK):
                self._lines[found] = tuple(line)
        return self._lines[number]


class Rows(dict[int, Row]):
    """Rows by number."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.written = written

    def __missing__(self, number: int) -> Row:
        kind, body = self.written[number]
        row = self[number] = row_from_lists(kind, json.loads(body))
        return row


class Types(dict[int, TensorType]):
    """Tensor types by number."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self._written = written

    def __missing__(self, number: int) -> TensorType:
        dtype, shape, device, requires_grad, leaf = json.loads(self._written[number][0])
        made = self[number] = TensorType(dtype, tuple(shape), device, requires_grad, leaf)
        return made


def site_from(number: int, fields: list[Any]) -> Site:
    """A line of the table `site`."""
    *plain, loops, branches, test, header = fields
    around = _same(tuple(_loop(*each) for each in loops))
    arms = tuple(Branch(*each) for each in branches)
    return Site(*[number, *plain, around, arms, None if test is None else Test(*test), header])


@cache
def _same(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    return loops


_loop = cache(Loop)  # one object a loop, and one tuple, so that comparing two of them is quick
