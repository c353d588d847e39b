"""Finding: what a rule says. Frozen; it cannot be made without the nodes or the lines that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from plait._errors import PlaitError
from plait.graph import Site

Category = Literal["correctness", "suspicious", "memory", "numerics", "dynamism", "performance"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Where:
    """A line that a finding speaks of, and what happened there (`cut`, `made`, `backward`)."""

    role: str
    file: str
    line: int
    expression: str = ""

    @staticmethod
    def of(role: str, site: Site | None) -> Where | None:
        """A site as a place of a finding."""
        return None if site is None else Where(role, site.file, site.line, site.expression)

    def __str__(self) -> str:
        from plait.rules._words import path_of

        return f"{path_of(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in three sentences: a fact, what follows from it, and what to do instead.

    `places` are the lines, the one to change first. `graph` and `nodes` say where in the recording it stands, `steps`
    are the first few steps in which it was seen and `count` is in how many. `facts` holds the numbers of the sentences.

    Raises:
        PlaitError: there is neither a node nor a place.
    """

    rule: str
    category: Category
    fact: str
    consequence: str
    cure: str
    places: tuple[Where, ...] = ()
    graph: int | None = None
    nodes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    count: int = 0
    facts: Mapping[str, float | int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nodes and not self.places:
            raise PlaitError(f"a finding of {self.rule} must name the nodes or the lines that it speaks of")

    @property
    def place(self) -> Where | None:
        """The line to change."""
        return self.places[0] if self.places else None

    @property
    def file(self) -> str | None:
        """The file of the line to change."""
        return self.places[0].file if self.places else None

    @property
    def line(self) -> int | None:
        """The line to change."""
        return self.places[0].line if self.places else None

    def __str__(self) -> str:
        where = f"{self.place}  " if self.places else ""
        steps = f", {self.count:,} steps" if self.count > 1 else ""
        return f"{where}{self.fact}\n  {self.consequence}\n  {self.cure}\n  ({self.rule}{steps})"


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the ranks of one job part. `step` and `kind` (`decision`, `trips`, `op`) are None if one only stopped.

    `ranks` says what each rank did there, `missing` which parameters a rank did not reach, `ends` how far each came.
    """

    step: int | None
    kind: str | None
    label: str
    place: Where | None
    ranks: tuple[str, ...]
    missing: tuple[tuple[str, tuple[str, ...]], ...]
    ends: tuple[tuple[str, int, str, Where | None], ...]
