"""What the tape knows of a tensor: which row made it, as which output, at which version.

NOTE [Entries]
    `ids` maps `id(tensor)` to (weak reference, place, port, version). An address is reused as soon as a tensor dies,
    so an entry counts only if its weak reference still gives that tensor. `place` is the row that made the value, or
    -k for the k-th input. `port` is type * 4096 + output number. `version` is None for inference tensors.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from plait.graph._rows import Reference

PORTS: Final = 4096
Entry = tuple[Any, int, int, int | None]


class Earlier(NamedTuple):
    """A tensor that an earlier step made and that is still alive: where, under which name, as which result."""

    tensor: Any
    site: int | None
    name: str | None
    origin: tuple[int, int, int] | None = None  # (span, place, output)


def reference_from(here: int, entry: Entry) -> Reference:
    """A value as the row at `here` refers to it."""
    place = entry[1]
    return (here - place if place >= 0 else place), entry[2] % PORTS
