"""Where a step began: known only at its end, from the loop in which that stands.

NOTE [Where a step began]
    A step begins with the iteration of the innermost loop around its end (the optimizer's step, the backward pass).
    Without either, each outermost module call begins one: where the iteration with this call began, if that is later
    than the call before it, else at the call. What ran before the first cut (setup, an evaluation between two epochs)
    is a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plait.graph._rows import EnterRow, ReturnRow
from plait.recorder._tape import Tape

ON_THE_WAY: Final = frozenset({"enter", "return", "mode"})  # rows that say where the program is, not what it does
HOLDS_WORK: Final = frozenset({"op", "read", "backward"})


@dataclass(slots=True)
class Mark:
    """A moment in the step: the functions under way (the place of their EnterRow, their call site) and the site."""

    place: int
    frames: list[tuple[int, int | None]]
    site: int | None


class Cuts:
    """Finds in the rows of the tape where steps begin."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def places(self, end: Mark | None, calls: Sequence[Mark]) -> list[int]:
        """The places at which the rows fall into several steps, given what ended them and the outermost calls."""
        if end is not None:
            start = self._iteration_start(end)
            cuts = [*self._between_calls([call for call in calls if call.place < start]), start]
        else:
            cuts = self._between_calls(calls)
        # A part that holds nothing but the functions under way is none.
        return [
            cut for before, cut in zip([0, *cuts], cuts)
            if 0 < cut < len(self._tape.tokens) and self._holds(HOLDS_WORK | {"mode"}, before, cut)
        ]  # fmt: skip

    def _between_calls(self, calls: Sequence[Mark]) -> list[int]:
        cuts: list[int] = []
        for earlier, call in zip((None, *calls), calls):
            start = self._iteration_start(call)
            if earlier is not None:
                start = self._last_iteration(earlier, call)
            if start > (cuts[-1] if cuts else 0):
                cuts.append(start)
        return cuts

    def _holds(self, kinds: frozenset[str], start: int, end: int) -> bool:
        rows, tokens = self._tape.rows, self._tape.tokens
        return any(rows[tokens[place]].row.kind in kinds for place in range(start, end))

    def _iteration_start(self, end: Mark) -> int:
        """The first place inside the innermost loop around `end`; 0 where no loop is known."""
        found = self._loop_around(end)
        if found is None:
            return 0
        level, chain = found
        for place, site in self._sites_at(level, end.frames[level][0], end.place):
            if self._loops(site)[: len(chain)] == chain:
                return self._with_its_inputs(place)
        return 0

    def _last_iteration(self, earlier: Mark, call: Mark) -> int:
        """Where the iteration with this call begins, if it began after the `earlier` call; else the call itself."""
        found = self._loop_around(call)
        if found is not None:
            level, chain = found
            start: int | None = None
            last: tuple[bool, int] | None = None
            enter = call.frames[level][0]
            for place, site in self._sites_at(level, enter, call.place):
                body = self._tape.sites.bodies[site]
                inside = self._loops(site)[: len(chain)] == chain
                if not inside:
                    last = None
                    continue
                order = not body[12], body[5]
                if site != earlier.site and (last is None or order <= last) and place > earlier.place:
                    start = place
                last = order
            if start is not None:
                return self._with_its_inputs(start)
        return self._with_its_inputs(call.place)

    def _loop_around(self, mark: Mark) -> tuple[int, tuple[Any, ...]] | None:
        sites = [site for _, site in mark.frames[1:]] + [mark.site]
        for level in range(len(mark.frames) - 1, -1, -1):
            site = sites[level]
            if site is not None and (chain := self._loops(site)):
                return level, chain
        return None

    def _loops(self, site: int) -> tuple[Any, ...]:
        loops: tuple[Any, ...] = self._tape.sites.bodies[site][9]
        return loops

    def _sites_at(self, level: int, enter: int, end: int) -> Iterator[tuple[int, int]]:
        """(place, site) of everything that ran in, or was called from, the frame that began at the place `enter`."""
        tape = self._tape
        depth = level
        for place in range(enter + 1, min(end + 1, len(tape.tokens))):
            row = tape.rows[tape.tokens[place]].row
            if isinstance(row, EnterRow):
                depth += 1
                if depth == level + 1 and row.site is not None:
                    yield place, row.site
            elif isinstance(row, ReturnRow):
                depth -= row.levels
            elif depth == level and (site := getattr(row, "site", None)) is not None and row.kind != "input":
                yield place, site

    def _with_its_inputs(self, place: int) -> int:
        """Inputs stand right before the row that first uses them: the cut goes before those."""
        tape = self._tape
        while place > 0 and tape.rows[tape.tokens[place - 1]].row.kind in ("input", "alias"):
            place -= 1
        return place
