"""What the backward nodes of a step keep, counted from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from plait.graph._rows import OpRow, Row


def saved_bytes(rows: Sequence[Row]) -> int:
    """Bytes that the backward nodes of a step keep; shared storages once, inputs of the step (parameters) not."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for place, row in enumerate(rows):
        if not isinstance(row, OpRow) or not row.saved:
            continue
        for _, source, which, nbytes in row.saved:
            if source == "own":
                total += nbytes
                continue
            if source == "argument":
                distance, output = row.arguments[which]
                root = _root(rows, place - distance, output) if distance > 0 else None
            else:
                root = _root(rows, place, which)
            if root is not None and root not in seen:
                seen.add(root)
                total += nbytes
    return total


def _root(rows: Sequence[Row], place: int, output: int) -> tuple[int, int] | None:
    """The value whose storage a value lives in; None for an input of the step."""
    while True:
        row = rows[place]
        if row.kind == "alias":
            distance, output = row.value  # type: ignore[union-attr]
        elif isinstance(row, OpRow):
            made = row.outputs[output]
            argument = made.base if made.base is not None else made.replaces
            if argument is None:
                return place, output
            distance, output = row.arguments[argument]
        else:
            return None
        if distance < 0:
            return None
        place -= distance
