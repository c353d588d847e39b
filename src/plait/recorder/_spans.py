"""Spans: what was on the tape between two clearings. The last few are kept, for errors that reach back into them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from plait.recorder._entries import Entry

if TYPE_CHECKING:
    from plait.recorder._tape import Tape

SPANS_KEPT: Final = 8  # earlier stretches of the run that an error can be explained from,
SPAN_ROWS: Final = 200_000  # up to this many rows together


class Span(NamedTuple):
    """What was on the tape between two clearings."""

    number: int
    first_number: int
    tokens: list[int]
    numbers: list[int]
    ids: dict[int, Entry]
    input_places: list[int]
    origins: dict[int, tuple[int, int, int]]
    extra_nodes: dict[int, tuple[int, int]]


class Spans:
    """The spans that are kept. They are copies of flat tables, so keeping one costs next to nothing."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._past: deque[Span] = deque()
        self._rows = 0
        self.number = 0  # of the span that is under way

    def keep(self) -> None:
        """Keep what is on the tape, which is about to be cleared."""
        tape = self._tape
        if tape.tokens:
            self._past.append(self._now())
            self.number += 1
            self._rows += len(tape.tokens)
            while self._past and (len(self._past) > SPANS_KEPT or self._rows > SPAN_ROWS):
                self._rows -= len(self._past.popleft().tokens)

    def all(self) -> list[Span]:
        """The ones that were kept, and what is on the tape now."""
        return [*self._past, self._now()]

    def _now(self) -> Span:
        tape = self._tape
        return Span(
            self.number, tape.first_number, tape.tokens.copy(), tape.numbers.copy(), tape.ids.copy(),
            tape.input_places.copy(), tape.origins, tape.extra_nodes.copy(),
        )  # fmt: skip
