"""Mark, Fold and Contrast: what decisions, cuts, findings, loops and comparisons become for drawing.

Whoever knows something about a run says it in these forms; whoever draws needs to know no more than them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plait.graph._site import Site

MarkKind = Literal["decision", "read", "loop", "cut", "write", "backward", "finding"]
FoldKind = Literal[
    "step", "frame", "loop", "again", "op", "input", "decision", "backward", "mode", "event"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """A remark at a line of the source. `site` is the place it stands at, `weight` orders marks of one line."""

    kind: MarkKind
    text: str
    file: str
    line: int
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """Things of a graph that stand in one place of the program, drawn once.

    `members` are ids in the graph's own table of that kind (nodes for `op` and `input`, decisions, backwards, modes,
    events; regions for `frame`, `loop` and `again`, where a function calls itself and its content is found further
    up). `trips` of a loop are its fewest and most rounds, None where they cannot be known; `depth` of a frame is how
    deep it calls itself.
    """

    kind: FoldKind
    label: str
    members: tuple[int, ...]
    site: int | None
    trips: tuple[int, int] | None
    depth: int
    children: tuple[Fold, ...]

    @property
    def count(self) -> int:
        """How often it ran."""
        return len(self.members)


@dataclass(frozen=True, slots=True)
class ContrastSide:
    """One of the runs of a comparison and what it did where they part; `source`: that file as it was in this run."""

    label: str
    text: str
    step: int | None = None
    site: Site | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """A comparison of runs: what comes out, as sentences; each side where they part; titled lists of what differs."""

    text: tuple[str, ...]
    sides: tuple[ContrastSide, ...]
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
