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
    around: tuple[Loop, ...] = ()  # those of the last site, as long as they are the ones that run


class RegionBuilder:
    """Follows a step through its sites; `at` answers the region of what happens there."""

    def __init__(self, sites: Mapping[int, Site]) -> None:
        self._sites = sites
        self._regions: list[Region] = []
        self._frames: list[_Frame] = []
        self._has_own: set[int] = set()  # iterations with something of their own, not only an inner loop
        self.loop_sites: dict[int, int] = {}  # region of a loop -> the site where it began

    def enter(self, row: EnterRow, same: bool | None = False) -> int | None:
        """A frame begins, called from `row.site` of the frame that is on top; the region of the call."""
        parent = self.at(row.site, same)
        region = self._new(parent, "frame", row.function, row.site, row.line, 0)
        self._frames.append(_Frame(region))
        return parent

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
        if around is frame.around:  # as nearly always: the sites of one loop share one tuple
            if not loops:
                return frame.region
            self._go_on(loops[-1], number, site, same, True)
            return loops[-1].iteration
        frame.around = around
        common = 0
        for running, loop in zip(loops, around):
            if running.loop is not loop and running.loop != loop:
                break
            common += 1
        if common < len(loops):
            for open_loop in reversed(loops[common:]):
                self._close(open_loop)
            del loops[common:]
        if common:
            self._go_on(loops[-1], number, site, same, common == len(around))
        parent = loops[-1].iteration if loops else frame.region
        if common == len(around):
            return parent
        for depth in range(common, len(around)):
            loop = around[depth]
            region = self._new(parent, "loop", loop.header, None, loop.line, 0)
            self.loop_sites[region] = number
            parent = self._new(region, "iteration", "", None, loop.line, 0)
            deepest = depth == len(around) - 1
            in_body = not (site.header and deepest)
            loops.append(_OpenLoop(loop, region, parent, 0, (in_body, site.offset), in_body, number))
        self._has_own.add(parent)
        return parent

    def _go_on(self, loop: _OpenLoop, number: int, site: Site, same: bool | None, innermost: bool) -> None:
        """Something happens in a running loop: in the round that is under way, or in a new one."""
        order = (not (site.header and innermost), site.offset)
        last = loop.last
        if same is None and order == last:
            loop.unclear = True
        if number != loop.only:
            loop.only = None
        if order < last or (same is False and order == last):
            loop.count += 1
            loop.iteration = self._new(loop.region, "iteration", "", None, loop.loop.line, loop.count)
        loop.last = order
        loop.entered_body = order[0]
        if innermost:
            self._has_own.add(loop.iteration)

    def open_loops(self) -> frozenset[int]:
        """The loops that have not ended yet."""
        return frozenset(loop.region for frame in self._frames for loop in frame.loops)

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
