"""What a recording holds beside graphs: steps, variants, reads, notes. Frozen, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from plait.graph import Decision, Hashes, Site

StepKind = Literal["train", "forward", "rest"]


class Read(NamedTuple):
    """What one decision saw: the value that was read, and both sides when a comparison made it.

    `value` is a bool or a number; None for a read of a whole array (`tolist`, `numpy`). `margin` tells how close the
    decision was.
    """

    value: bool | int | float | None
    left: float | None = None
    right: float | None = None

    @property
    def margin(self) -> float | None:
        """|left - right|, or None if no comparison of two numbers made the value."""
        if self.left is None or self.right is None:
            return None
        return abs(self.left - self.right)


@dataclass(frozen=True, slots=True)
class Step:
    """One round of the program and its own numbers; what it built is graph number `graph`.

    `kind` is `train` (it has a backward pass), `forward` (a call of a model without one) or `rest` (what ran before,
    between and after). `graph` is None when the recording had reached its limit. `started` counts seconds from the
    start of the recording, `ns` is wall time in nanoseconds, `operations_ns` the part spent inside recorded calls.
    `complete` is False for a step that was cut off by the end of the run. `grad_norm` is the 2-norm over all
    gradients the step left, if values were asked for.
    """

    id: int
    graph: int | None
    kind: StepKind
    started: float
    ns: int
    operations_ns: int
    loss: float | None
    grad_norm: float | None
    saved_bytes: int
    complete: bool
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the distinct graphs of a run, and how often it was built. `program` numbers the programs (same code,
    loops folded) from 0 in the order of their first step."""

    graph: int
    steps: int
    first_step: int
    program: int
    nodes: int
    operations: int
    decisions: int
    saved_bytes: int
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """A decision as it fell in one step."""

    step: int
    decision: Decision
    site: Site | None
    read: Read

    @property
    def outcome(self) -> bool | int | float | None:
        """What Python got: the bool, or the number that was read."""
        return self.decision.outcome if self.decision.outcome is not None else self.read.value


@dataclass(frozen=True, slots=True)
class Sample:
    """Elements of a small tensor, kept for small graphs: of a value (`what` is `value`) or of the gradient with
    respect to it (`gradient`)."""

    graph: int
    node: int
    output: int
    what: Literal["value", "gradient"]
    elements: Any


@dataclass(frozen=True, slots=True)
class LineTime:
    """How often the operations of one row ran in the whole run and the nanoseconds they took."""

    row: int
    count: int
    ns: int


@dataclass(frozen=True, slots=True)
class BackwardStats:
    """A backward node in one step: 2-norms of the gradients that came in and went out, nanoseconds since the pass
    began, and whether something not finite first appeared here. Only with `values="stats"`."""

    step: int
    backward: int
    node: int
    name: str
    norm_in: float | None
    norm_out: float | None
    ns: int
    first_nonfinite: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """A call of a function of `plait.batch`: so many `calls` of all examples ran in so many `groups`.

    `flushes` counts how often what waited was run, `reads` where examples asked for values (site, times), `alone` what
    ran for one example at a time (name, why, times). `loop` says why the whole batch ran as a plain loop, `hint` what
    would help most.
    """

    id: int
    step: int
    site: Site | None
    examples: int
    calls: int
    groups: int
    flushes: int
    ns: int
    loop: str | None
    hint: str | None
    reads: tuple[tuple[Site | None, int], ...]
    alone: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """Calls of one kind that ran as one: of which examples, and from which lines (site, calls)."""

    id: int
    flush: int
    name: str
    width: int
    ns: int
    examples: tuple[int, ...]
    places: tuple[tuple[Site | None, int], ...]


@dataclass(frozen=True, slots=True)
class BatchFlush:
    """Why what waited was run: `waiting` examples asked for a value, most of them at `site`; None: all had returned."""

    id: int
    site: Site | None
    waiting: int
