"""Structural hashes: which steps built the same graph. Works on rows, so that it is cheap while recording."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plait.graph._model import Hashes
from plait.graph._rows import InputRow, OpRow, Row
from plait.graph._site import Site

Place = tuple[str, int, int, str] | None


def place_of(file: str, line: int, column: int | None, function: str) -> Place:
    """A place that is the same on another machine: the file's name without its folders."""
    return file.replace("\\", "/").rsplit("/", 1)[-1], line, -1 if column is None else column, function


def row_digests(
    row: Row, types: Mapping[int, Any] | Sequence[Any], place: Callable[[int], Place]
) -> tuple[bytes, bytes]:
    """(with sizes, without sizes): what a row says, independent of the numbers this recording gave its tables."""
    site = getattr(row, "site", None)
    rest = [getattr(row, name) for name in row._fields if name not in ("site", "scope")]
    where = None if site is None else place(site)
    if isinstance(row, InputRow):
        kind = types[row.type]
        loose: list[Any] = [row.what, row.name, kind.dtype, len(kind.shape), kind.requires_grad, where]
        return _digest([loose, kind]), _digest(loose)
    if isinstance(row, OpRow):
        outputs = [(types[out.type], *out[1:]) for out in row.outputs]
        loose_outputs = [(kind.dtype, len(kind.shape), kind.requires_grad, *rest) for kind, *rest in outputs]
        common: list[Any] = [
            row.op, where, row.grad_mode, row.in_backward, row.arguments, row.positions, row.writes, row.cut,
            row.backward,
        ]  # fmt: skip
        saved = [(name, source, which) for name, source, which, _ in row.saved]
        return (
            _digest([common, row.constants, outputs, row.saved]),
            _digest([common, loose_outputs, saved]),
        )
    if row.kind == "alias":
        rest = [row.value, row.by, row.grad_fn, row.backward]  # type: ignore[union-attr]
    digest = _digest([row.kind, rest, where])
    return digest, digest


def program_item(row: Row, place: Callable[[int], Place], in_arm: bool) -> str | None:
    """What a row adds to the program's fingerprint: the operation and its line; None in an arm that a value chose."""
    if in_arm or row.kind not in ("op", "backward", "event"):
        return None
    site = getattr(row, "site", None)
    what = row.op if isinstance(row, OpRow) else row.kind
    return f"{what}@{None if site is None else place(site)}"


def hash_of_digests(digests: Iterable[bytes]) -> str:
    """The hash of a graph from the digests of its rows in order."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()


def hash_of_items(items: Iterable[str]) -> str:
    """The hash of a program: the set of what ran, so loops count once and trip counts fall away."""
    return hashlib.blake2b("\n".join(sorted(items)).encode(), digest_size=16).hexdigest()


class HashBuilder:
    """Follows the rows of a step and ends with its three hashes; the recorder does the same with cached digests."""

    def __init__(self, types: Mapping[int, Any] | Sequence[Any], sites: Mapping[int, Site]) -> None:
        self._types = types
        self._sites = sites
        self._tight: list[bytes] = []
        self._loose: list[bytes] = []
        self._items: set[str] = set()
        self._arms: list[bool] = []  # for each open frame: was it called from an arm that a value chose
        self._tests: set[tuple[str, int, int]] = set()

    def add(self, row: Row) -> None:
        """The next row of the step."""
        tight, loose = row_digests(row, self._types, self._place)
        self._tight.append(tight)
        self._loose.append(loose)
        number = getattr(row, "site", None)
        site = None if number is None else self._sites[number]
        in_arm = bool(self._arms and self._arms[-1]) or (
            site is not None and any((site.file, each.line, each.column) in self._tests for each in site.branches)
        )
        if row.kind == "enter":
            self._arms.append(in_arm)
        elif row.kind == "return":
            del self._arms[len(self._arms) - row.levels :]  # type: ignore[union-attr]
        elif row.kind == "read" and site is not None and site.test is not None:
            self._tests.add((site.file, site.test.line, site.test.column))
        if (item := program_item(row, self._place, in_arm)) is not None:
            self._items.add(item)

    def finish(self) -> Hashes:
        """The hashes of everything that was added."""
        return Hashes(hash_of_digests(self._tight), hash_of_digests(self._loose), hash_of_items(self._items))

    def _place(self, number: int) -> Place:
        site = self._sites[number]
        return place_of(site.file, site.line, site.column, site.function)


def _digest(content: Any) -> bytes:
    return hashlib.blake2b(repr(content).encode(), digest_size=12).digest()
