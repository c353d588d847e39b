"""Two runs side by side: how much a row has changed, and the first operation or decision that changed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from plait.checks._capture import Result, Run
from plait.diffs import Divergence, diff


@dataclass(frozen=True)
class Effect:
    """How far a result moved: the largest difference, and the largest value it is to be seen against."""

    difference: float
    scale: float

    @property
    def relative(self) -> float:
        """The difference as a part of the scale."""
        return self.difference / self.scale if self.scale else self.difference


@dataclass(frozen=True)
class Culprit:
    """Where two runs part: a decision (with both outcomes), an operation, or nothing that can be named."""

    kind: Literal["decision", "op", "unknown"]
    divergence: Divergence | None
    result: Result | None


@dataclass(frozen=True)
class View:
    """How the tensors of one run are seen in another: row `row` of `rows` in a, the only row in b (or the same row in
    `both`); of the positions only the first `length` (where a dimension is `width` in a and `wide` in b)."""

    row: int
    rows: int
    length: int | None = None
    width: int = 0
    wide: int = 0
    both: bool = False

    def pair(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The parts that should be equal; None where the sizes say nothing about it."""
        if a.dim() != b.dim():
            return None
        if self.both:
            return self._in_place(a, b)
        rowed = False
        for dim in range(a.dim()):
            one, other = a.shape[dim], b.shape[dim]
            if self.length is not None and one == self.width and other == self.wide:
                a, b = a.narrow(dim, 0, self.length), b.narrow(dim, 0, self.length)
            elif one == other:
                continue
            elif self.rows > 1 and not rowed and one == self.rows * other:
                a, rowed = a.narrow(dim, self.row * other, other), True
            else:
                return None
        return a, b

    def _in_place(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        dim = self._row_dim(a) if a.shape == b.shape else None
        if dim is None:
            return None
        size = a.shape[dim] // self.rows
        return a.narrow(dim, self.row * size, size), b.narrow(dim, self.row * size, size)

    def _row_dim(self, a: torch.Tensor) -> int | None:
        exact = next((dim for dim, size in enumerate(a.shape) if size == self.rows), None)
        if exact is not None:
            return exact
        return next((dim for dim, size in enumerate(a.shape) if size and size % self.rows == 0), None)

    def crossed(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether two dimensions of a count the rows."""
        if a.dim() != b.dim() or self.both or self.rows < 2:
            return False
        return sum(one == self.rows * other for one, other in zip(a.shape, b.shape)) > 1

    def shared(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether the two have one size although the numbers of rows differ: nothing in them belongs to one row."""
        if self.both:
            return a.shape == b.shape and self._row_dim(a) is None
        return self.rows > 1 and a.shape == b.shape


def effect(a: torch.Tensor, b: torch.Tensor) -> Effect:
    """How far `a` and `b` are apart; an exact difference for whole numbers, infinite where only one is finite."""
    if a.numel() == 0:
        return Effect(0.0, 0.0)
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    one, other = a.double(), b.double()
    both = torch.isfinite(one) & torch.isfinite(other)
    if not bool((both | (one == other) | (one.isnan() & other.isnan())).all()):
        return Effect(float("inf"), 1.0)
    if not bool(both.any()):
        return Effect(0.0, 0.0)
    return Effect(
        float((one - other)[both].abs().max()), float(torch.maximum(one[both].abs(), other[both].abs()).max())
    )


def tolerance(tensor: torch.Tensor) -> float:
    """Relative difference that rounding alone may make."""
    return {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 5e-2}.get(tensor.dtype, 0.0)


def moved(a: torch.Tensor, b: torch.Tensor) -> Effect | None:
    """The effect, if it is more than rounding."""
    found = effect(a, b)
    limit = max(tolerance(a), tolerance(b))
    return found if found.difference > limit * max(found.scale, 1e-3) else None


def outputs_moved(a: Run, b: Run, view: View) -> Effect | None:
    """The largest effect among the outputs."""
    worst: Effect | None = None
    for one, other in zip(a.output, b.output):
        if view.shared(one, other):
            continue  # a loss over all rows may differ
        pair = view.pair(one, other)
        found = None if pair is None else moved(*pair)
        if found is not None and (worst is None or found.relative > worst.relative):
            worst = found
    return worst


def comparable(a: Run, b: Run, view: View) -> bool:
    """Whether any output can be compared."""
    return any(
        not view.shared(one, other) and view.pair(one, other) is not None for one, other in zip(a.output, b.output)
    )


def culprit(a: Run, b: Run, view: View) -> Culprit:
    """The first thing that differs: a decision that fell another way, else the first operation whose row moved."""
    parted = diff(a.recording, b.recording).divergence
    if parted is not None and parted.kind == "decision":
        before = _first_moved(a, b, view)
        if before is None or not _row_wise(before, a, view):
            return Culprit("decision", parted, before)
    found = _first_moved(a, b, view)
    return Culprit("op", parted, found) if found is not None else Culprit("unknown", parted, None)


def _row_wise(found: Result, a: Run, view: View) -> bool:
    """Whether a row had moved before the decision fell: then the decision only follows."""
    return found.value.dim() > 0 and view.rows > 1 and found.value.numel() > 1


def _first_moved(a: Run, b: Run, view: View) -> Result | None:
    """The first operation whose part of the row differs; if it mixed in a number of all rows, what made that number."""
    found = _first_of(a, b, view, a.needed)
    return found if found is not None or not a.needed else _first_of(a, b, view, frozenset())


def _first_of(a: Run, b: Run, view: View, needed: frozenset[int]) -> Result | None:
    shared: set[int] = set()
    for number, (one, other) in enumerate(zip(a.results, b.results)):
        if one.op != other.op or _place(one) != _place(other):
            return None
        if needed and number not in needed:
            continue
        if view.shared(one.value, other.value):
            if moved(one.value, other.value) is not None:
                shared.add(number)
            continue
        pair = view.pair(one.value, other.value)
        if pair is None and view.crossed(one.value, other.value):
            shared.add(number)  # each row against each row
        if pair is None or moved(*pair) is None:
            continue
        mixed = [source for source in one.sources if source in shared]
        return _maker(a, mixed[0], shared) if mixed else one
    return None


def _maker(run: Run, number: int, shared: set[int]) -> Result:
    """The operation that first put all rows into one number."""
    while True:
        before = [source for source in run.results[number].sources if source in shared]
        if not before:
            return run.results[number]
        number = before[0]


def _place(result: Result) -> tuple[str, int, int | None] | None:
    return None if result.site is None else (result.site.file, result.site.line, result.site.column)
