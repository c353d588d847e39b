"""Rows: the letters in which a step is written down, and the tables they point into.

A step is a list of row numbers, one for each thing that happened. A row says everything about it *relative* to its
place, so the hundredth iteration of a loop uses the rows of the second one, and a step that builds a known graph
is the same list of numbers again. That is what makes recording cheap and files small.

A reference is `(distance, output)`: the value that the row `distance` places before this one made as its output
number `output`. A negative distance -k is the k-th input of the step (inputs are used from far away, so they are
counted from the start).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from plait.graph._model import InputKind

Reference: TypeAlias = tuple[int, int]


class TensorType(NamedTuple):
    """What can be known of a tensor without its elements."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    leaf: bool


class InputRow(NamedTuple):
    """A tensor that the step used and did not make. `site` is where it was made, where that was seen."""

    what: InputKind
    type: int
    name: str | None
    site: int | None
    kind: str = "input"


class OutputRow(NamedTuple):
    """A result: its type, its grad_fn in `backward`, and by place in `arguments`: the one whose storage it shares and
    the one that it is (a new version of: written in place, or handed back). `number` is which output of its grad_fn
    it is (`tensor.output_nr`)."""

    type: int
    grad_fn: int | None
    base: int | None
    replaces: int | None
    number: int


class ParentRow(NamedTuple):
    """Where a backward node hands its gradient: `how` is `value` (the grad_fn of the value at that reference), `leaf`
    (adds into the value at that reference), `node` (number `which` of the row at `distance`) or `old` (made before
    the step). An argument is named by its value: which backward node it has may differ where all else is the same."""

    how: Literal["value", "leaf", "node", "old"]
    distance: int
    which: int
    number: int


class OpRow(NamedTuple):
    """An operation that ran. `arguments` are its tensors, `positions` their places in the call."""

    op: str
    site: int | None
    scope: int | None
    grad_mode: bool
    in_backward: bool
    arguments: tuple[Reference, ...]
    positions: tuple[str, ...]
    constants: str
    outputs: tuple[OutputRow, ...]
    writes: tuple[int, ...]
    cut: str | None
    saved: tuple[tuple[str, str, int, int], ...]  # name, "argument" | "output" | "own", which, bytes
    backward: tuple[tuple[str, tuple[ParentRow | None, ...]], ...]
    kind: str = "op"


class ReadRow(NamedTuple):
    """Python asked for the value of a tensor."""

    how: str
    site: int | None
    value: Reference
    outcome: bool | None
    comparison: str | None
    kind: str = "read"


class EnterRow(NamedTuple):
    """A function of the program began, called at `site`."""

    function: str
    site: int | None
    line: int
    kind: str = "enter"


class ReturnRow(NamedTuple):
    """`levels` functions of the program are over."""

    levels: int
    kind: str = "return"


class ModeRow(NamedTuple):
    """Gradient recording was switched on or off."""

    mode: str
    enabled: bool
    site: int | None
    kind: str = "mode"


class AliasRow(NamedTuple):
    """A value has changed though no operation named it: `by` rows before, something wrote to its storage.

    `grad_fn` is the backward node it has now: (rows before, which of that row's), None for no change. A view gets a
    new node when it is looked at after a write to its base: such nodes are in `backward`, as those of an operation.
    """

    value: Reference
    by: int | None
    type: int
    grad_fn: tuple[int, int] | None
    number: int
    backward: tuple[tuple[str, tuple[ParentRow | None, ...]], ...]
    kind: str = "alias"


class BackwardRow(NamedTuple):
    """A backward pass began."""

    how: str
    site: int | None
    roots: tuple[Reference, ...]
    inputs: tuple[Reference, ...]
    retain_graph: bool
    create_graph: bool
    adds: bool = False  # to gradients that an earlier pass left and no update has used
    kind: str = "backward"


class EventRow(NamedTuple):
    """An optimizer step, zero_grad, clipping, an error, work of another thread. `facts`: what rules ask about it."""

    what: str
    detail: str
    site: int | None
    values: tuple[Reference, ...]
    facts: tuple[tuple[str, int | str], ...] = ()
    kind: str = "event"


Row: TypeAlias = InputRow | OpRow | ReadRow | EnterRow | ReturnRow | ModeRow | AliasRow | BackwardRow | EventRow

_KINDS: dict[str, type[Row]] = {
    row._field_defaults["kind"]: row
    for row in (InputRow, OpRow, ReadRow, EnterRow, ReturnRow, ModeRow, AliasRow, BackwardRow, EventRow)
}


def row_from_lists(kind: str, fields: list[object]) -> Row:
    """The row that was written as JSON lists: `fields` in the order of its class, without the kind."""
    made = [_tuples(field) for field in fields]
    if kind == "op":
        made[8] = tuple(OutputRow(*item) for item in made[8])  # type: ignore[attr-defined]
    if kind in ("op", "alias"):
        made[-1] = tuple(
            (name, tuple(None if parent is None else ParentRow(*parent) for parent in parents))
            for name, parents in made[-1]  # type: ignore[attr-defined]
        )
    return _KINDS[kind](*made)  # type: ignore[arg-type]


def _tuples(item: object) -> object:
    if type(item) is not list:
        return item
    # Called for every list of every row of a file: a comprehension that only descends where it must.
    return tuple([_tuples(each) if type(each) is list else each for each in item])
