"""Regions: the tree of frames, loops and iterations over the nodes of a step.

A frame is known exactly (the recorder sees it begin and end). A loop is where its syntax is; a new iteration begins
when the program comes back to an instruction at or before the last one inside the same loop. A loop whose body does
nothing but run an inner loop leaves no operation of its own between two rounds: its `trips` are unknown (None) and
the inner loop counts all rounds together. Where one place is all that a loop has, `plait.graph._executions` tells its
rounds from the operations of one round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from plait.graph._make import maker
from plait.graph._model import Region
from plait.graph._rows import EnterRow
from plait.graph._site import Loop, Site

_region = maker(Region)


@dataclass(slots=True)
class _OpenLoop:
    loop: Loop
    region: int
    iteration: int
    count: int
    last: tuple[bool, int]
    entered_body: bool
    only: int | None  # the site of all that happened in it, None as soon as there is another
    unclear: bool = False  # at one place, whether a round began could not be told


@dataclass(slots=True)
class _Frame:
    region: int
    loops: list[_OpenLoop] = field(default_factory=list)


class RegionBuilder:
    """Follows a step through its sites; `at` answers the region of what happens there."""

    def __init__(self, sites: Mapping[int, Site]) -> None:
        self._sites = sites
        self._regions: list[Region] = []
        self._frames: list[_Frame] = []
        self._has_own: set[int] = set()  # iterations with something of their own, not only an inner loop

    def enter(self, row: EnterRow, same: bool | None = False) -> None:
        """A frame begins, called from `row.site` of the frame that is on top."""
        parent = self.at(row.site, same)
        region = self._new(parent, "frame", row.function, row.site, row.line, 0)
        self._frames.append(_Frame(region))

    def leave(self, levels: int) -> None:
        """The last `levels` frames are over."""
        for _ in range(levels):
            for open_loop in self._frames.pop().loops:
                self._close(open_loop)

    def at(self, number: int | None, same: bool | None = False) -> int | None:
        """The region of what happens now at this site; `same`: as a part of what happened there before (see
        `plait.graph._executions`)."""
        if not self._frames:
            return None
        frame = self._frames[-1]
        if number is None:
            return frame.loops[-1].iteration if frame.loops else frame.region
        site = self._sites[number]
        loops, around = frame.loops, site.loops
        common = 0
        for running, loop in zip(loops, around):
            if running.loop is not loop and running.loop != loop:
                break
            common += 1
        if common < len(loops):
            for open_loop in reversed(loops[common:]):
                self._close(open_loop)
            del loops[common:]
        innermost = common == len(around)
        if common:
            current = loops[common - 1]
            order = (not (site.header and innermost), site.offset)
            if same is None and order == current.last:
                current.unclear = True
            if number != current.only:
                current.only = None
            if order < current.last or (order == current.last and same is False):
                current.count += 1
                current.iteration = self._new(current.region, "iteration", "", None, current.loop.line, current.count)
            current.last = order
            current.entered_body = not site.header or not innermost
            if innermost:
                self._has_own.add(current.iteration)
                return current.iteration
        parent = loops[-1].iteration if loops else frame.region
        for depth in range(common, len(around)):
            loop = around[depth]
            region = self._new(parent, "loop", loop.header, None, loop.line, 0)
            parent = self._new(region, "iteration", "", None, loop.line, 0)
            deepest = depth == len(around) - 1
            in_body = not (site.header and deepest)
            loops.append(_OpenLoop(loop, region, parent, 0, (in_body, site.offset), in_body, number))
        if loops:
            self._has_own.add(loops[-1].iteration)
        return parent

    @property
    def count(self) -> int:
        """How many regions there are so far."""
        return len(self._regions)

    def since(self, count: int) -> list[Region]:
        """The regions that are new since there were `count`."""
        return self._regions[count:]

    def open_loops(self) -> set[int]:
        """The loops that have not ended yet."""
        return {loop.region for frame in self._frames for loop in frame.loops}

    def finish(self) -> tuple[Region, ...]:
        """All regions. Frames that are still open end here."""
        self.leave(len(self._frames))
        return tuple(self._regions)

    def _new(self, parent: int | None, kind: str, label: str, site: int | None, line: int, index: int) -> int:
        number = len(self._regions)
        self._regions.append(_region(number, parent, kind, label, site, line, index, None))  # type: ignore[arg-type]
        return number

    def _close(self, loop: _OpenLoop) -> None:
        trips: int | None = loop.count + 1
        if loop.loop.kind == "while" and not loop.entered_body:
            trips = loop.count  # the last round was only the test that ended the loop
        if loop.count == 0 and loop.iteration not in self._has_own:
            trips = None
        if loop.unclear and loop.only is not None:
            trips = None
        self._regions[loop.region] = replace(self._regions[loop.region], trips=trips)
