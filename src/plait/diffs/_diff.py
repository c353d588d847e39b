"""diff: two things in, what differs out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from plait.diffs._align import align, common_start
from plait.diffs._divergence import Divergence, Half, divergence, lines
from plait.diffs._items import Item, items, same_source
from plait.diffs._sides import Comparable, Side, side
from plait.graph import Graph
from plait.graph._notation import plural, shorten, value_type
from plait.recording._failure import path_of

Verdict = Literal["equal", "sizes", "changed", "diverges"]
SHOWN: Final = 12  # lines of a list in the text form
MOST_PAIRS: Final = 200  # pairs of distinct graphs that are compared to find the first that part

_VERDICTS = {
    "equal": "a and b built the same graph.",
    "sizes": "a and b ran the same program with other sizes.",
    "changed": "a and b ran the same operations, on other types or in other modules.",
    "diverges": "a and b part ways.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A node that both have, and what is different about it (`shape`, `dtype`, `device`, `scope`)."""

    what: str
    place: str
    field: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.place}  `{shorten(self.what, 50)}`: {self.field} {self.a} in a, {self.b} in b"


@dataclass(frozen=True)
class Diff:
    """What differs between `a` and `b`. False in a truth test if they are equal.

    >>> import plait
    >>> from plait.graph import build
    >>> empty = build([], [], [], {}, {})
    >>> found = plait.diff(empty, empty)
    >>> found.verdict, bool(found)
    ('equal', False)
    """

    a: str
    b: str
    verdict: Verdict
    divergence: Divergence | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: tuple[Change, ...]
    steps: tuple[int, int] | None = None
    note: str | None = None

    def __bool__(self) -> bool:
        return self.verdict != "equal"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        yield f"a: {self.a}"
        yield f"b: {self.b}"
        yield _VERDICTS[self.verdict]
        if self.note:
            yield self.note
        if self.divergence is not None:
            yield ""
            step = "" if self.divergence.step is None else f"in step {self.divergence.step} "
            yield f"They part {step}after {plural(self.divergence.position, 'thing')} that both did:"
            yield from lines(self.divergence)
        for title, found in (("only in a", self.only_a), ("only in b", self.only_b), ("changed", self.changed)):
            if not found:
                continue
            yield ""
            yield f"{title} ({len(found):,})"
            yield from _counted([str(each) for each in found])

    def to_json(self) -> str:
        """One JSON document; `format` numbers its form."""
        document: dict[str, Any] = {
            "format": "plait-diff", "version": 1, "a": self.a, "b": self.b, "verdict": self.verdict,
            "steps": self.steps, "note": self.note, "divergence": _divergence(self.divergence),
            "only_a": list(self.only_a), "only_b": list(self.only_b),
            "changed": [asdict(each) for each in self.changed],
        }  # fmt: skip
        return json.dumps(document, indent=1)


def diff(a: Comparable, b: Comparable) -> Diff:
    """Where `a` and `b` part, and what differs: two recordings (objects or files), two steps, two graphs.

    Whole runs are compared step by step until the first pair of steps that parts. Works across versions of a source:
    there operations are matched by what they are and in which module and function, not by their line.

    >>> found = plait.diff("before.plait", "after.plait")   # doctest: +SKIP
    >>> print(found.divergence)                              # doctest: +SKIP
    train.py:31  the decision `h.mean() > 0` went two ways.

    Raises:
        PlaitError: one of them can't be compared or read.
    """
    left, right = side(a), side(b)
    if (left.graph is None) != (right.graph is None):  # a run against a graph: its last one
        left, right = _last(left), _last(right)
    exact = same_source(left, right)
    if left.graph is not None and right.graph is not None:
        return _of_graphs(left, right, exact)
    return _of_runs(left, right, exact)


def _last(each: Side) -> Side:
    if each.graph is not None or each.recording is None:
        return each
    return Side(each.label, each.recording.graph, recording=each.recording, sources=each.sources)


def _of_graphs(a: Side, b: Side, exact: bool) -> Diff:
    assert a.graph is not None and b.graph is not None
    steps = None if a.step is None or b.step is None else (a.step, b.step)
    items_a, items_b = items(a.graph, exact), items(b.graph, exact)
    found = divergence(a, b, items_a, items_b, common_start(items_a, items_b))
    pairs, only_a, only_b = align(items_a, items_b)
    note = None
    if found is not None and found.kind in ("end", "trips"):
        short = a if len(items_a) < len(items_b) else b
        if not short.complete and found.position == min(len(items_a), len(items_b)):
            note = f"{short.label} was cut off after {plural(found.position, 'thing')}; up to there they are alike."
            found, only_a, only_b = None, [], []
    changed = [each for one, other in pairs for each in _changes(a.graph, b.graph, one, other)]
    verdict: Verdict = "equal"
    if found is not None or only_a or only_b:
        verdict = "diverges"
    elif any(each.field != "shape" for each in changed):
        verdict = "changed"
    elif changed:
        verdict = "sizes"
    return Diff(
        a.label, b.label, verdict, found, _shown(only_a), _shown(only_b), tuple(changed), steps,
        note,
    )  # fmt: skip


def _of_runs(a: Side, b: Side, exact: bool) -> Diff:
    """Step by step, each pair of distinct graphs once, until one parts."""
    assert a.recording is not None and b.recording is not None
    first: Diff | None = None
    known: dict[tuple[int, int], Diff] = {}
    compared = 0
    for one, other in zip(a.recording.steps, b.recording.steps):
        compared += 1
        if one.graph is None or other.graph is None:
            continue
        key = one.graph, other.graph
        if key not in known:
            if len(known) >= MOST_PAIRS:
                break
            known[key] = _of_graphs(a.at(one), b.at(other), exact)
            found = known[key]
            if found.verdict == "diverges":
                return _named(found, a, b, _lengths(a, b))
            if found and (first is None or (first.verdict == "sizes" and found.verdict == "changed")):
                first = found
    note = _lengths(a, b)
    if first is not None:
        return _named(first, a, b, note)
    verdict: Verdict = "diverges" if note else "equal"
    return Diff(a.label, b.label, verdict, None, (), (), (), None, note or f"Compared: {plural(compared, 'step')}.")


def _named(found: Diff, a: Side, b: Side, note: str | None) -> Diff:
    return Diff(
        a.label, b.label, found.verdict, found.divergence, found.only_a, found.only_b, found.changed, found.steps, note
    )  # fmt: skip


def _lengths(a: Side, b: Side) -> str | None:
    assert a.recording is not None and b.recording is not None
    one, other = len(a.recording.steps), len(b.recording.steps)
    return None if one == other else f"a has {plural(one, 'step')}, b has {plural(other, 'step')}."


def _changes(graph_a: Graph, graph_b: Graph, one: Item, other: Item) -> Iterator[Change]:
    if one.node is None or other.node is None:
        return
    place = _place(one)
    module_a, module_b = graph_a.scope_of(one.node), graph_b.scope_of(other.node)
    path_a, path_b = (None if each is None else each.path for each in (module_a, module_b))
    if path_a != path_b:
        yield Change(one.what, place, "scope", path_a or "no module", path_b or "no module")
    for value_a, value_b in zip(one.node.outputs, other.node.outputs):
        mine, theirs = graph_a.values[value_a], graph_b.values[value_b]
        for field in ("dtype", "device", "requires_grad"):
            before, now = getattr(mine, field), getattr(theirs, field)
            if before != now:
                yield Change(one.what, place, field, str(before), str(now))
        if mine.shape != theirs.shape:
            yield Change(one.what, place, "shape", value_type(mine), value_type(theirs))


def _place(item: Item) -> str:
    return "?" if item.site is None else f"{path_of(item.site.file)}:{item.site.line}"


def _shown(found: list[Item]) -> tuple[str, ...]:
    """Without the decisions: the operation that made the value that was read stands there already."""
    return tuple(
        f"{_place(item)}  `{shorten(item.what, 70)}`" if item.site is not None else f"`{item.what}`"
        for item in found if item.kind != "decision"
    )  # fmt: skip


def _counted(texts: list[str]) -> Iterator[str]:
    """Equal lines once, with how often they stand there."""
    counts: dict[str, int] = {}
    for each in texts:
        counts[each] = counts.get(each, 0) + 1
    for index, (text, count) in enumerate(counts.items()):
        if index == SHOWN:
            yield f"  and {len(counts) - SHOWN:,} more"
            return
        yield f"  {text}{f'  {count:,}x' if count > 1 else ''}"


def _divergence(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "kind": found.kind, "step": found.step, "position": found.position, "label": found.label,
        "comparison": found.comparison, "cause": found.cause, "a": _half(found.a), "b": _half(found.b),
    }  # fmt: skip


def _half(half: Half | None) -> dict[str, Any] | None:
    if half is None:
        return None
    return {
        "file": None if half.site is None else half.site.file, "line": None if half.site is None else half.site.line,
        "what": half.what, "outcome": half.outcome, "value": half.value, "left": half.left, "right": half.right,
        "margin": half.margin, "arm": half.arm, "trips": half.trips,
    }  # fmt: skip
