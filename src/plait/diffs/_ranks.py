"""The ranks of one distributed job side by side: where they part first, and what each rank did there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plait._errors import PlaitError
from plait.diffs._diff import MOST_PAIRS, _divergence, _of_graphs
from plait.diffs._divergence import Divergence, Half, _decided, _ran, _rounds
from plait.diffs._items import same_source
from plait.diffs._sides import Comparable, Side, side
from plait.graph import Backward, Event, Graph, Node, Site
from plait.graph._notation import plural, shorten
from plait.graph._walk import reached_leaves
from plait.recording import Step
from plait.recording._failure import path_of


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: how far it came, what it did where the ranks part, and which parameters it did not reach there."""

    label: str
    steps: int
    status: str
    last: str
    half: Half | None
    unreached: tuple[str, ...]
    last_site: Site | None = None


@dataclass(frozen=True)
class RankDiff:
    """The ranks of a job. False in a truth test if all did the same."""

    ranks: tuple[Rank, ...]
    step: int | None
    divergence: Divergence | None

    def __bool__(self) -> bool:
        return self.divergence is not None or len({rank.steps for rank in self.ranks}) > 1

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        found = self.divergence
        if found is None:
            yield f"All {len(self.ranks)} ranks built the same graphs."
        else:
            site = next((rank.half.site for rank in self.ranks if rank.half is not None and rank.half.site), None)
            where = "" if site is None else f"{path_of(site.file)}:{site.line}  "
            what = {
                "decision": f"the decision `{found.label}` differs",
                "trips": f"the rounds of `{found.label}` differ",
            }
            yield f"{where}The ranks part in step {self.step}: {what.get(found.kind, 'other operations run')}."
            for rank in self.ranks:
                yield f"  {rank.label}: {_words(found, rank.half)}"
            if found.cause:
                yield f"  {found.cause}"
            missing = [rank for rank in self.ranks if rank.unreached]
            for rank in missing:
                yield f"  {rank.label} gives no gradient to {_listed(rank.unreached)}."
            if missing:
                yield "  The other ranks wait for those gradients: DistributedDataParallel fails, or hangs."
                yield "  Decide together (reduce the value over the ranks first), or use every parameter in each step."
        lengths = {rank.steps for rank in self.ranks}
        if len(lengths) > 1 or any(rank.status != "done" for rank in self.ranks):
            for rank in self.ranks:
                yield f"{rank.label}: {plural(rank.steps, 'step')}, {rank.status}; last: {rank.last}"

    def doings(self) -> list[str]:
        """What each rank did where they part, one phrase a rank."""
        found = self.divergence
        return [] if found is None else [f"{rank.label}: {_words(found, rank.half)}" for rank in self.ranks]

    def to_json(self) -> str:
        """One JSON document; `format` numbers its form."""
        document: dict[str, Any] = {
            "format": "plait-ranks", "version": 1, "step": self.step, "divergence": _divergence(self.divergence),
            "ranks": [
                {"label": rank.label, "steps": rank.steps, "status": rank.status, "last": rank.last,
                 "unreached": list(rank.unreached),
                 "outcome": None if rank.half is None else rank.half.outcome,
                 "value": None if rank.half is None else rank.half.value}
                for rank in self.ranks
            ],
        }  # fmt: skip
        return json.dumps(document, indent=1)


def diff_ranks(recordings: Sequence[Comparable]) -> RankDiff:
    """Where the ranks of one job part: the first decision, loop or operation at which one of them differs.

    Works as well when the job hung and was killed: then the last step of each file is cut short.

    >>> print(diff_ranks(["run.rank0.plait", "run.rank1.plait"]))   # doctest: +SKIP
    train.py:12  The ranks part in step 3: the decision `x.sum() > 0` differs.

    Raises:
        PlaitError: there are fewer than two, or one of them is no recording.
    """
    sides = [side(each) for each in recordings]
    if len(sides) < 2 or any(each.recording is None or each.graph is not None for each in sides):
        raise PlaitError(
            "ranks: give the recordings of at least two ranks of one job (run.rank0.plait run.rank1.plait)"
        )
    sides = sorted(sides, key=_number)
    found: tuple[int, int, int, Divergence] | None = None  # (step, position, rank, divergence)
    for index, other in enumerate(sides[1:], 1):
        parted = _first(sides[0], other)
        if parted is not None and (found is None or (*parted[:2], index) < found[:3]):
            found = (*parted[:2], index, parted[2])
    step = None if found is None else found[0]
    halves = _halves(sides, step, None if found is None else found[3])
    missing = _unreached(sides, step)
    ranks = tuple(_rank(each, half, names) for each, half, names in zip(sides, halves, missing))
    return RankDiff(ranks, step, None if found is None else found[3])


def _first(a: Side, b: Side) -> tuple[int, int, Divergence] | None:
    assert a.recording is not None and b.recording is not None
    exact = same_source(a, b)
    known: dict[tuple[int, int], Divergence | None] = {}
    for one, other in zip(a.recording.steps, b.recording.steps):
        if one.graph is None or other.graph is None:
            continue
        key = one.graph, other.graph
        if key not in known:
            if len(known) >= MOST_PAIRS:
                return None
            known[key] = _of_graphs(a.at(one), b.at(other), exact).divergence
            found = known[key]
            if found is not None:
                return one.id, found.position, found
    return None


def _halves(sides: list[Side], step: int | None, first: Divergence | None) -> list[Half | None]:
    """What each rank did at the place where they part."""
    if step is None or first is None:
        return [None for _ in sides]
    halves: list[Half | None] = [first.a]
    for each in sides[1:]:
        theirs = _at(each, step)
        mine = _at(sides[0], step)
        found = None
        if theirs is not None and mine is not None:
            found = _of_graphs(mine, theirs, same_source(sides[0], each)).divergence
        same_place = found is not None and found.position == first.position
        halves.append(found.b if same_place and found is not None else first.a if theirs is not None else None)
    return halves


def _at(each: Side, step: int) -> Side | None:
    assert each.recording is not None
    if step >= len(each.recording.steps):
        return None
    found = each.at(each.recording.steps[step])
    return found if found.graph is not None else None


def _unreached(sides: list[Side], step: int | None) -> list[tuple[str, ...]]:
    """For each rank the parameters that it did not reach in this step and some other rank did."""
    if step is None:
        return [() for _ in sides]
    reached = []
    for each in sides:
        found = _at(each, step)
        reached.append(set() if found is None or found.graph is None else _names(found.graph))
    union = set().union(*reached)
    return [tuple(sorted(union - each)) if each else () for each in reached]


def _names(graph: Graph) -> set[str]:
    names = (graph.values[leaf].name for leaf in reached_leaves(graph))
    return {name.removeprefix("module.") for name in names if name is not None}


def _rank(each: Side, half: Half | None, unreached: tuple[str, ...]) -> Rank:
    assert each.recording is not None
    steps = each.recording.steps
    status = each.recording.meta.get("status", "")
    if status == "running":
        status = "killed, or still running"
    last = steps[-1] if len(steps) else None
    site = _last(each, last)
    words = "nothing" if site is None else f"`{shorten(site.expression, 60)}` at {path_of(site.file)}:{site.line}"
    return Rank(_label(each), len(steps), status, words, half, unreached, site)


def _last(each: Side, step: Step | None) -> Site | None:
    """What ran last."""
    graph = None if step is None else each.at(step).graph
    if step is None or graph is None or not graph.nodes:
        return None
    calls: list[Backward | Event] = [*graph.backwards, *graph.events]
    latest = max(calls, key=lambda call: (call.after, call.moment)) if calls else None
    item: Backward | Event | Node = (
        latest if latest is not None and latest.after >= len(graph.nodes) else graph.nodes[-1]
    )
    return graph.site_of(item)


def _words(found: Divergence, half: Half | None) -> str:
    if half is None:
        return "had not come so far"
    if found.kind == "decision":
        return _decided(half, found.comparison)
    return _rounds(half) if found.kind == "trips" else _ran(half)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _number(each: Side) -> tuple[int, str]:
    found = re.search(r"rank(\d+)", each.label)
    return (int(found.group(1)) if found else 0), each.label


def _label(each: Side) -> str:
    found = re.search(r"rank(\d+)", each.label)
    return f"rank {found.group(1)}" if found else each.label
