"""Places in the source: the expression that ran, and the loops, arms and tests around it. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for`, `while` or comprehension of the source, as its header reads."""

    line: int
    column: int
    kind: Literal["for", "while", "comprehension"]
    header: str


@dataclass(frozen=True, slots=True)
class Branch:
    """An arm of an `if`, conditional expression or `while`: which test it hangs on and on which outcome."""

    line: int
    column: int
    arm: bool


@dataclass(frozen=True, slots=True)
class Test:
    """The test of the source in which a value was read (`if h.sum() > 0`).

    `role` says how the value that was read relates to the test: it is the `whole` of it, its `negated` form, or a
    `part` (of an `and`, a comparison with a number). `true_line` and `false_line` are where the program goes on,
    with the text that stands there; None where nothing does (no `else`).
    """

    kind: Literal["if", "while", "conditional", "assert", "filter"]
    line: int
    column: int
    expression: str
    role: Literal["whole", "negated", "part"]
    true_line: int | None
    true_text: str | None
    false_line: int | None
    false_text: str | None


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source: the range of one expression in one function.

    `column` and `end_column` count UTF-8 bytes from 0 (None where Python keeps no columns). `offset` is the
    instruction, which orders the sites of a function. `target` is the name that the expression's result was
    given (`h`, `self.state`), where the source says so. `header` sites stand in the header of their innermost loop
    and run once more in each iteration (the test of a `while`, the `next` of a `for`).
    """

    id: int
    file: str
    line: int
    end_line: int
    column: int | None
    end_column: int | None
    offset: int
    function: str
    expression: str
    target: str | None
    loops: tuple[Loop, ...]
    branches: tuple[Branch, ...]
    test: Test | None
    header: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
