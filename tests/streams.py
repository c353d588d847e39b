"""Random streams of rows, as a recorder could have written them, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from handmade import Tape
from plait.graph._rows import AliasRow, ParentRow

SOURCE = """\
def step(xs):
    h = a(xs)
    for x in xs:
        h = b(h)
        while h.sum() > 0:
            h = c(h)
        if h.mean() > 0:
            h = d(h)
    return h
"""
_PLACES = [(2, "a(xs)"), (4, "b(h)"), (5, "h.sum() > 0"), (6, "c(h)"), (7, "h.mean() > 0"), (8, "d(h)"), None]


@st.composite
def streams(draw: st.DrawFn, most: int = 25) -> Tape:
    """A tape with one step under way: inputs, operations with views, writes and backward nodes, reads, frames."""
    tape = Tape(SOURCE)
    values: list[tuple[int, int]] = []  # (place, output); negative place: input
    grads: list[tuple[int, int]] = []  # (place, which)
    inputs = 0
    depth = 0

    def reference(value: tuple[int, int]) -> tuple[int, int]:
        return value if value[0] < 0 else (len(tape.tokens) - value[0], value[1])

    def kind(grad: bool, leaf: bool) -> int:
        return tape.type(*draw(st.lists(st.integers(1, 3), max_size=2)), grad=grad, leaf=leaf)

    def site() -> int | None:
        place = draw(st.sampled_from(_PLACES))
        return None if place is None else tape.site(*place, function="step")

    for _ in range(draw(st.integers(1, most))):
        what = draw(st.sampled_from(["input", "op", "op", "op", "read", "enter", "leave", "mode", "alias", "backward"]))
        if what == "input" or not values:
            inputs += 1
            values.append(tape.input(draw(st.sampled_from(["leaf", "data", "parameter"])), kind(True, True)))
        elif what == "op":
            used = draw(st.lists(st.sampled_from(values), max_size=3))
            outputs = draw(st.integers(0, 2))
            writes = (0,) if used and outputs and draw(st.booleans()) else ()
            base = [0 if used and (writes or draw(st.booleans())) else None for _ in range(outputs)]
            backward = ()
            here = len(tape.tokens)
            if outputs and draw(st.booleans()):
                parents: list[ParentRow | None] = [None]
                if grads:
                    place, which = draw(st.sampled_from(grads))
                    parents.append(ParentRow("node", here - place, which, 0))
                leaves = [value for value in values if value[0] < 0]
                if leaves:
                    parents.append(ParentRow("leaf", *draw(st.sampled_from(leaves)), 0))
                backward = (("SomeBackward0", tuple(parents)),)
                grads.append((here, 0))
            saved = (("self", "argument", 0, 12),) if used else (("buffer", "own", 0, 8),)
            place = tape.op(
                draw(st.sampled_from(["sin", "__add__", "linear"])), *map(reference, used),
                out=tuple(kind(bool(backward), False) for _ in range(outputs)), site=site(), backward=backward,
                saved=saved, writes=writes, bases=tuple(base),
            )  # fmt: skip
            values.extend((place, output) for output in range(outputs))
        elif what == "read":
            tape.read(reference(draw(st.sampled_from(values))), site(), "bool", draw(st.booleans()))
        elif what == "enter":
            tape.enter("step", site(), 1)
            depth += 1
        elif what == "leave" and depth:
            levels = draw(st.integers(1, depth))
            tape.leave(levels)
            depth -= levels
        elif what == "mode":
            tape.mode("no_grad", draw(st.booleans()), site())
        elif what == "alias":
            value = draw(st.sampled_from(values))
            place = tape.row(AliasRow(reference(value), None, kind(False, False), None, 0, ()))
            values.append((place, 0))
        elif what == "backward":
            tape.backward(reference(draw(st.sampled_from(values))), site())
    return tape
