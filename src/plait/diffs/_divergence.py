"""Where two runs part: the decision, the number of rounds of a loop, or the operation, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plait.diffs._items import Item
from plait.diffs._sides import Side
from plait.graph import Graph, Region, Site
from plait.graph._notation import number, shorten
from plait.recording import Read
from plait.recording._failure import path_of


@dataclass(frozen=True, slots=True)
class Half:
    """One side of a divergence: its place, what ran there, and for a decision what was read and which way it went."""

    site: Site | None
    what: str
    outcome: bool | None = None
    value: bool | int | float | None = None
    left: float | None = None
    right: float | None = None
    arm: str | None = None
    trips: int | None = None

    @property
    def margin(self) -> float | None:
        """How close the decision was: |left - right|."""
        return None if self.left is None or self.right is None else abs(self.left - self.right)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first thing that differs. `position` counts what both did alike before it; `cause` is the last number that
    was read differently before, or the test that went the other way, where one of them is known."""

    kind: Literal["decision", "trips", "op", "end"]
    position: int
    step: int | None
    a: Half | None
    b: Half | None
    label: str
    comparison: str | None
    cause: str | None

    def __str__(self) -> str:
        return "\n".join(lines(self))


def lines(found: Divergence) -> list[str]:
    """The divergence as text, the place first."""
    half = found.a or found.b
    where = "" if half is None or half.site is None else f"{path_of(half.site.file)}:{half.site.line}  "
    if found.kind == "decision":
        text = [f"{where}the decision `{found.label}` went two ways."]
        text += [f"  {name}: {_decided(half, found.comparison)}" for name, half in (("a", found.a), ("b", found.b))]
    elif found.kind == "trips":
        a, b = (_rounds(half) for half in (found.a, found.b))
        text = [f"{where}`{found.label}` ran {a} in a and {b} in b."]
    elif found.kind == "end":
        longer = "a" if found.a is not None else "b"
        text = [f"{where}only {longer} goes on, with `{found.label}`."]
    else:
        text = [f"{where}other operations run from here on."]
        text += [f"  {name}: {_ran(half)}" for name, half in (("a", found.a), ("b", found.b))]
    if found.cause:
        text.append(f"  {found.cause}")
    return text


def divergence(a: Side, b: Side, items_a: Sequence[Item], items_b: Sequence[Item], start: int) -> Divergence | None:
    """What is said about the first item that differs; None if nothing does."""
    one = items_a[start] if start < len(items_a) else None
    other = items_b[start] if start < len(items_b) else None
    if one is None and other is None:
        return None
    step = a.step
    if one is not None and other is not None and one.key == other.key:
        return Divergence(
            "decision", start, step, _half(a, one), _half(b, other), _test(one), _comparison(one), None
        )  # fmt: skip
    cause = _read_before(a, b, items_a, items_b, start) or _other_arm(one, other)
    loop = _loop(a, b, one, other)
    if loop is not None:
        half_a = Half(loop[3], loop[0], trips=loop[1])
        half_b = Half(loop[3], loop[0], trips=loop[2])
        return Divergence("trips", start, step, half_a, half_b, loop[0], None, cause)
    if one is None or other is None:
        half = one or other
        assert half is not None
        return Divergence(
            "end", start, step, _half(a, one), _half(b, other), shorten(half.what, 70), None, cause
        )  # fmt: skip
    return Divergence("op", start, step, _half(a, one), _half(b, other), shorten(one.what, 70), None, cause)


def _half(side: Side, item: Item | None) -> Half | None:
    if item is None:
        return None
    decision = item.decision
    if decision is None:
        return Half(item.site, item.what)
    read = side.read(decision.id) or Read(None)
    return Half(item.site, item.what, decision.outcome, read.value, read.left, read.right, _arm(item))


def _arm(item: Item) -> str | None:
    """Where the program goes on, as the source says."""
    test = None if item.site is None else item.site.test
    if test is None or item.decision is None or item.decision.outcome is None or test.role == "part":
        return None
    holds = item.decision.outcome is (test.role == "whole")
    line, text = (test.true_line, test.true_text) if holds else (test.false_line, test.false_text)
    return None if line is None else f"line {line} `{shorten(text or '', 60)}`"


def _test(item: Item) -> str:
    test = None if item.site is None else item.site.test
    return shorten(test.expression if test is not None else item.what, 70)


def _comparison(item: Item) -> str | None:
    return None if item.decision is None else item.decision.comparison


def _decided(half: Half | None, comparison: str | None) -> str:
    if half is None:
        return "nothing"
    text = str(half.outcome if half.outcome is not None else number(half.value))
    if half.left is not None and half.right is not None and comparison is not None:
        text = f"{number(half.left)} {comparison} {number(half.right)} is {half.outcome}"
        if half.margin is not None:
            text += f" (by {number(float(f'{half.margin:.3g}'))})"
    return f"{text}, so it goes on at {half.arm}" if half.arm else text


def _rounds(half: Half | None) -> str:
    trips = None if half is None else half.trips
    return "not at all" if not trips else f"{trips:,} round{'' if trips == 1 else 's'}"


def _ran(half: Half | None) -> str:
    if half is None:
        return "nothing more"
    where = "" if half.site is None else f" at {path_of(half.site.file)}:{half.site.line}"
    return f"`{shorten(half.what, 70)}`{where}"


def _read_before(
    a: Side, b: Side, items_a: Sequence[Item], items_b: Sequence[Item], start: int
) -> str | None:  # fmt: skip
    """The last number that was read differently before the two part."""
    for one, other in zip(reversed(items_a[:start]), reversed(items_b[:start])):
        if one.decision is None or other.decision is None or one.decision.outcome is not None:
            continue
        mine, theirs = a.read(one.decision.id), b.read(other.decision.id)
        if mine is not None and theirs is not None and mine.value != theirs.value:
            where = "" if one.site is None else f" at {path_of(one.site.file)}:{one.site.line}"
            return (
                f"Before that `{shorten(one.what, 60)}`{where} read {number(mine.value)} in a and"
                f" {number(theirs.value)} in b."
            )
    return None


def _other_arm(one: Item | None, other: Item | None) -> str | None:
    """The test of the source in whose arms the two stand, when no tensor was read for it."""
    for item, against in ((one, other), (other, one)):
        if item is None or item.site is None:
            continue
        there = set() if against is None or against.site is None else set(against.site.branches)
        for branch in item.site.branches:
            if branch not in there:
                return (
                    f"The test at {path_of(item.site.file)}:{branch.line} went another way; no tensor was read for it,"
                    " so it hangs on sizes or on Python's own state."
                )
    return None


def _loop(a: Side, b: Side, one: Item | None, other: Item | None) -> tuple[str, int, int, Site | None] | None:
    """(header, rounds in a, rounds in b, where) if one of the two goes round a loop once more than the other."""
    for item, side, against, across in ((one, a, other, b), (other, b, one, a)):
        if item is None or side.graph is None or across.graph is None:
            continue
        loops = _loops(side.graph, item)
        outside = set() if against is None else {each.id for each in _loops(across.graph, against)}
        for loop in loops:
            twin = _twin(side.graph, across.graph, loop)
            if twin is not None and twin.id in outside:
                continue  # the other is in the same loop
            mine, theirs = loop.trips, 0 if twin is None else twin.trips
            if mine is not None and theirs is not None and mine != theirs:
                counts = (mine, theirs) if side is a else (theirs, mine)
                site = None if item.site is None else replace(item.site, line=loop.line, expression=loop.label)
                return loop.label, *counts, site
    return None


def _loops(graph: Graph, item: Item) -> list[Region]:
    region = item.node.region if item.node is not None else item.decision.region if item.decision is not None else None
    found = []
    while region is not None:
        each = graph.regions[region]
        if each.kind == "loop":
            found.append(each)
        region = each.parent
    return found[::-1]


def _twin(graph: Graph, across: Graph, loop: Region) -> Region | None:
    """The same loop in the other graph: the one with the same header at the same count among its like."""
    like = [each for each in graph.regions if each.kind == "loop" and each.label == loop.label]
    twins = [each for each in across.regions if each.kind == "loop" and each.label == loop.label]
    index = next((index for index, each in enumerate(like) if each.id == loop.id), 0)
    return twins[index] if index < len(twins) else None
