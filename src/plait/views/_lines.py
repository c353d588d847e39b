"""What is known of each line of the program: counts, times, saved bytes and remarks. The source view prints it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from plait.decisions import LoopTrips, Place, Survey
from plait.graph._marks import Mark
from plait.graph._model import Graph, Value
from plait.graph._notation import number, op_name, plural, shorten, span, times
from plait.graph._site import Site
from plait.recording import OpTotal, OtherTotal, other_totals, read_totals

_LARGEST = 200_000  # nodes of a graph that is still built to count what it keeps for backward


@dataclass(slots=True)
class Line:
    """One line: `runs` is how often it ran operations, `ops` how many operations that were."""

    runs: int = 0
    ops: int = 0
    ns: int = 0
    saved: int = 0
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of every file, by number. `saved_step` is the step whose saved bytes are shown."""

    by_file: dict[str, dict[int, Line]]
    ns: int
    saved_step: int | None


def lines_of(survey: Survey, places: Sequence[Place], findings: Sequence[Mark] = ()) -> Lines:
    """Everything that the annotated source shows; `findings` are remarks of whoever looked for faults."""
    files: dict[str, dict[int, Line]] = {}

    def at(site: Site) -> Line:
        return files.setdefault(site.file, {}).setdefault(site.line, Line())

    totals = survey.op_totals
    for site, (runs, ops, ns) in _per_site(survey, totals).items():
        line = at(site)
        line.runs, line.ops, line.ns = max(line.runs, runs), line.ops + ops, line.ns + ns
    saved_step = _add_saved(survey, at)
    lines = Lines(files, sum(total.ns for total in totals), saved_step)
    marks = [
        *_decision_marks(places), *_loop_marks(survey.loops, survey), *_cut_marks(survey, totals),
        *_other_marks(survey, other_totals(survey.recording)), *findings,
    ]  # fmt: skip
    for mark in marks:
        files.setdefault(mark.file, {}).setdefault(mark.line, Line()).marks.append(mark)
    for by_line in files.values():
        for line in by_line.values():
            line.marks.sort(key=lambda mark: mark.weight)
    return lines


def _per_site(survey: Survey, totals: Iterable[OpTotal]) -> dict[Site, tuple[int, int, int]]:
    """For every place: how often it ran, its operations, nanoseconds."""
    found: dict[int, tuple[int, int, int]] = {}  # rows, operations, nanoseconds
    for total in totals:
        if total.site is not None:
            rows, ops, ns = found.get(total.site, (0, 0, 0))
            found[total.site] = (rows + total.runs, ops + total.runs, ns + total.ns)
    for read in read_totals(survey.recording):
        if read.site is not None:
            rows, ops, ns = found.get(read.site, (0, 0, 0))
            found[read.site] = (rows + read.runs, ops, ns)
    return {
        survey.sites[number]: (survey.executions(number, rows), ops, ns) for number, (rows, ops, ns) in found.items()
    }


def _add_saved(survey: Survey, at: object) -> int | None:
    heaviest = max(survey.graphs, key=lambda each: each.saved_bytes, default=None)
    if heaviest is None or not heaviest.saved_bytes or heaviest.nodes > _LARGEST:
        return None
    try:
        graph = survey.recording.graph_number(heaviest.graph)
    except (IndexError, KeyError):  # a damaged graph: the rest of the recording is still worth showing
        return None
    for node, nbytes in saved_by_node(graph).items():
        site = graph.site_of(graph.nodes[node])
        if site is not None:
            at(site).saved += nbytes  # type: ignore[operator]
    return heaviest.first_step


def saved_by_node(graph: Graph) -> dict[int, int]:
    """Bytes that each node keeps for backward beyond inputs and parameters, every storage once, at its first user."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    for node in graph.nodes:
        for item in node.saved:
            if item.value is not None:
                root = storage_of(graph, graph.values[item.value])
                if root.id in seen or graph.nodes[root.node].kind == "input":
                    continue
                seen.add(root.id)
            found[node.id] = found.get(node.id, 0) + item.nbytes
    return found


def storage_of(graph: Graph, value: Value) -> Value:
    """The first value in the storage that this one lies in."""
    while True:
        older = value.base if value.base is not None else value.previous
        if older is None:
            return value
        value = graph.values[older]


# -- remarks ----------------------------------------------------------------------------------------------------


def _decision_marks(places: Sequence[Place]) -> Iterable[Mark]:
    read: dict[tuple[str, int], list[Place]] = {}
    several = Counter((place.site.file, place.site.line) for place in places if place.site and place.decides)
    for place in places:
        if place.site is not None and place.decides:
            text = describe(place)
            if several[place.site.file, place.site.line] > 1:
                text = f"{shorten(place.site.expression or place.how, 24)}: {text}"
            yield Mark("decision", text, place.site.file, place.site.line, 20)
        elif place.site is not None:
            read.setdefault((place.site.file, place.site.line), []).append(place)
    for (file, line), group in read.items():
        text = describe(group[0])
        if len(group) > 1:
            hows = dict.fromkeys(f"{place.how}()" for place in group)
            text = f"{times(sum(place.count for place in group))} {', '.join(hows)} at {len(group)} places"
        yield Mark("read", text, file, line, 30)


_DECIDE = {"nonzero": "a size from data", "mask": "a size from data", "index": "an index from data"}


def asked(place: Place) -> str:
    """How often what was asked, where the answer was no bool: `3x a size from data`."""
    return f"{times(place.count)} {_DECIDE.get(place.how, place.how)}"


def describe(place: Place) -> str:
    """One line about a place: `31x True, 19x False; closest 0.0021 (step 7)`."""
    parts = []
    if place.arms:
        parts.append(", ".join(f"{times(arm.count)} {arm.outcome}" for arm in place.arms))
    elif place.decides:
        parts.append(asked(place))
    if not place.decides:
        parts.append(f"{times(place.count)} {place.how}()" if place.how != "bool" else f"{times(place.count)} bool")
    if place.numbers is not None and place.numbers.count:
        low, high = place.numbers.low, place.numbers.high
        spread = number(low) if low == high else f"{number(low)} to {number(high)}"
        parts.append(f"{'value' if low == high else 'values'} {spread}")
    if place.closest is not None and place.decides:
        parts.append(f"closest {place.closest:.2g} (step {place.closest_step})")
    return "; ".join(parts)


def _loop_marks(loops: Iterable[LoopTrips], survey: Survey) -> Iterable[Mark]:
    for loop in loops:
        if loop.around:
            text = "around the steps"
        elif loop.trips is None:
            text = "rounds unknown"
        else:
            text = f"x {span(*loop.trips)}"
        yield Mark("loop", text, loop.file, loop.line, 10)


# Not worth a remark: nobody expects a gradient through these, and a switched off mode is shown where it is switched.
_QUIET = frozenset({"boolean result", "no_grad", "inference_mode"})
_COPIES = ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like")


def _cut_marks(survey: Survey, totals: Iterable[OpTotal]) -> Iterable[Mark]:
    counts: dict[tuple[str, int, str], int] = {}
    for total in totals:
        site = survey.site(total.site)
        if total.cut is None or site is None or total.cut in _QUIET or op_name(total.op) in _COPIES:
            continue
        name = op_name(total.op)
        text = name if name == total.cut else f"{name}, {total.cut}"
        key = (site.file, site.line, text)
        counts[key] = counts.get(key, 0) + total.runs
    for (file, line, text), count in counts.items():
        yield Mark("cut", f"{times(count)} {text}", file, line, 40)


def _other_marks(survey: Survey, totals: Iterable[OtherTotal]) -> Iterable[Mark]:
    for total in totals:
        site = survey.site(total.site)
        if site is None:
            continue
        if total.kind == "backward":
            keeps = ", keeps the graph" if total.detail == "on" else ""
            yield Mark("backward", f"{plural(total.runs, 'backward pass', 'backward passes')}{keeps}",
                       site.file, site.line, 50)  # fmt: skip
        elif total.kind == "mode" and total.detail == "off":
            yield Mark("cut", f"{times(total.runs)} {total.what}", site.file, site.line, 40)


def short_files(files: Iterable[str]) -> dict[str, str]:
    """For every file the shortest end of its path that still tells it apart.

    >>> short_files(["/a/b/train.py", "/a/b/models/rnn.py", "/a/b/rnn.py"])
    {'/a/b/train.py': 'train.py', '/a/b/models/rnn.py': 'models/rnn.py', '/a/b/rnn.py': 'b/rnn.py'}
    """
    parts = {file: file.replace("\\", "/").split("/") for file in files}
    found = {}
    for file, mine in parts.items():
        length = 2 if mine[-1] in ("__init__.py", "__main__.py") else 1
        while length < len(mine) and any(
            other[-length:] == mine[-length:] for name, other in parts.items() if name != file
        ):
            length += 1
        found[file] = "/".join(mine[-length:])
    return found


def where(site: Site, names: dict[str, str]) -> str:
    """`rnn.py:14`."""
    return shorten(f"{names.get(site.file, os.path.basename(site.file))}:{site.line}", 40)
