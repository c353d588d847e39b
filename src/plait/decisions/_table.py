"""The decisions of a run, one entry a place in the source: how often, which way, how close."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from plait.decisions._survey import Survey
from plait.graph._model import Site, Test
from plait.graph._rows import EnterRow, OpRow, ReadRow
from plait.recording import read_rows, read_totals, step_reads

READ_BUDGET = 40_000


@dataclass(frozen=True, slots=True)
class Arm:
    """One way a decision went: the truth of the test, how often, and the line that ran then (None: nothing)."""

    outcome: bool
    count: int
    line: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that were read at one place."""

    count: int
    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class Place:
    """Everything that was decided, or only read, at one place in the source.

    `count` is exact for the whole run. `arms` says which way the test went: exact where a bool was read, otherwise
    counted over the reads that were looked at (`sampled` when these were not all). `closest` is the smallest
    distance between the two sides of the comparison, seen first in step `closest_step`. `decides` is False where the
    program only took the number, as for printing.
    """

    site: Site | None
    how: str
    comparison: str | None
    count: int
    arms: tuple[Arm, ...]
    numbers: Numbers | None
    closest: float | None
    closest_step: int | None
    first_step: int | None
    decides: bool
    sampled: bool

    @property
    def predicate(self) -> str:
        """The test as it stands in the source, or the expression that was read."""
        if self.site is None:
            return self.how
        if self.site.test is not None and self.site.test.role != "whole":
            return self.site.test.expression
        return self.site.expression or self.how


@dataclass(slots=True)
class _Tally:
    how: str
    comparison: str | None
    count: int = 0
    bools: dict[bool, int] = field(default_factory=dict)
    tested: dict[bool, int] = field(default_factory=dict)
    low: float = float("inf")
    high: float = float("-inf")
    total: float = 0.0
    numbers: int = 0
    closest: float | None = None
    closest_step: int | None = None
    first_step: int | None = None


def read_decisions(survey: Survey, budget: int = READ_BUDGET) -> tuple[Place, ...]:
    """Every place where Python asked a tensor for its value, in the order of the source.

    At most `budget` single reads are looked at for their numbers (evenly over the steps); their counts come from
    totals and are exact.
    """
    tallies: dict[tuple[int | None, str], _Tally] = {}
    for total in read_totals(survey.recording):
        tally = tallies.setdefault((total.site, total.how), _Tally(total.how, total.comparison))
        tally.count += total.runs
        if total.outcome is not None:
            tally.bools[total.outcome] = tally.bools.get(total.outcome, 0) + total.runs
    sampled = _read_numbers(survey, tallies, budget) if tallies else False
    arms = _arms_seen(survey) if any(_unclear(survey.site(site)) for site, _ in tallies) else {}
    places = [
        _place(survey.site(number), tally, {} if number is None else arms.get(number, {}), sampled)
        for (number, _), tally in tallies.items()
    ]
    return tuple(sorted(places, key=_source_order))


def _source_order(place: Place) -> tuple[str, int, int, str]:
    if place.site is None:
        return ("\uffff", 0, 0, place.how)
    return (place.site.file, place.site.line, place.site.column or 0, place.how)


def _read_numbers(survey: Survey, tallies: dict[tuple[int | None, str], _Tally], budget: int) -> bool:
    """Fill in the numbers; True if only part of the steps could be looked at."""
    sizes = {built.graph for built in survey.graphs if built.decisions}
    every = -(-sum(built.steps * built.decisions for built in survey.graphs) // budget) or 1
    is_read = read_rows(survey.recording)
    tables: dict[int, list[tuple[_Tally, int | None]]] = {}
    tests: dict[int | None, _Comparison | None] = {number: _comparison(survey.site(number)) for number, _ in tallies}
    for step, graph, reads in step_reads(survey.recording, sizes, every):
        table = tables.get(graph)
        if table is None:
            table = tables[graph] = []
            for token in survey.recording.tokens(graph):
                if token in is_read:
                    row = survey.rows[token]
                    assert isinstance(row, ReadRow)
                    table.append((tallies.setdefault((row.site, row.how), _Tally(row.how, row.comparison)), row.site))
        for (tally, site), read in zip(table, reads):
            if tally.first_step is None:
                tally.first_step = step
            value, left, right = read if len(read) == 3 else (*read, None, None, None)[:3]
            if value is not True and value is not False and isinstance(value, (int, float)):
                tally.numbers += 1
                tally.total += value
                tally.low = min(tally.low, value)
                tally.high = max(tally.high, value)
            check = tests.get(site)
            if check is not None and isinstance(value, (int, float)):
                outcome = check.holds(value)
                tally.tested[outcome] = tally.tested.get(outcome, 0) + 1
                left, right = float(value), check.constant
            if left is not None and right is not None:
                margin = abs(left - right)
                if tally.closest is None or margin < tally.closest:
                    tally.closest, tally.closest_step = margin, step
    return every > 1


def _place(site: Site | None, tally: _Tally, seen: dict[bool, int], sampled: bool) -> Place:
    test = site.test if site is not None else None
    if test is not None and tally.bools and test.role != "part":
        outcomes = {(key if test.role == "whole" else not key): n for key, n in tally.bools.items()}
    elif test is not None:
        outcomes = tally.tested or seen
    else:
        outcomes = tally.bools
    arms = tuple(
        Arm(outcome, outcomes[outcome], *_arm(test, outcome)) for outcome in (True, False) if outcome in outcomes
    )
    numbers = None
    if tally.numbers:
        numbers = Numbers(tally.numbers, tally.low, tally.total / tally.numbers, tally.high)
    decides = test is not None or bool(tally.bools) or tally.how in ("nonzero", "index")
    return Place(
        site, tally.how, tally.comparison, tally.count, arms, numbers, tally.closest, tally.closest_step,
        tally.first_step, decides, sampled,
    )  # fmt: skip


def _arm(test: Test | None, outcome: bool) -> tuple[int | None, str | None]:
    if test is None:
        return None, None
    return (test.true_line, test.true_text) if outcome else (test.false_line, test.false_text)


# -- which arm ran, where only a part of the test was read ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Comparison:
    """`y.item() > 1.5`: a whole test that compares what was read with a number in the source."""

    operator: type[ast.cmpop]
    constant: float
    read_is_left: bool
    negated: bool

    def holds(self, value: float) -> bool:
        left, right = (value, self.constant) if self.read_is_left else (self.constant, value)
        result = {
            ast.Gt: left > right, ast.GtE: left >= right, ast.Lt: left < right, ast.LtE: left <= right,
            ast.Eq: left == right, ast.NotEq: left != right,
        }[self.operator]  # fmt: skip
        return result is not self.negated


@lru_cache(maxsize=1024)
def _comparison(site: Site | None) -> _Comparison | None:
    if site is None or site.test is None or site.test.role != "part":
        return None
    try:
        test: ast.expr = ast.parse(site.test.expression.strip(), mode="eval").body
        read = ast.unparse(ast.parse(site.expression.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError):
        return None
    negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negated = test.operand, not negated
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    operator = type(test.ops[0])
    if operator not in (ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.Eq, ast.NotEq):
        return None
    for side, other, read_is_left in (
        (test.left, test.comparators[0], True), (test.comparators[0], test.left, False),
    ):  # fmt: skip
        constant = _number(other)
        if constant is not None and ast.unparse(side) == read:
            return _Comparison(operator, constant, read_is_left, negated)
    return None


def _number(node: ast.expr) -> float | None:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return sign * float(node.value)
    return None


def _unclear(site: Site | None) -> bool:
    return site is not None and site.test is not None and site.test.role == "part" and _comparison(site) is None


def _arms_seen(survey: Survey) -> dict[int, dict[bool, int]]:
    """For reads that are a part of their test: how often what ran next stood in which arm of it."""
    found: dict[int, dict[bool, int]] = {}
    for graph in survey.tokens:
        steps = survey.by_graph[graph].steps
        for number, outcome in _arms_of(survey, graph):
            counts = found.setdefault(number, {})
            counts[outcome] = counts.get(outcome, 0) + steps
    return found


def _arms_of(survey: Survey, graph: int) -> Iterator[tuple[int, bool]]:
    waiting: dict[tuple[str, int, int], int] = {}  # (file and place of a test) -> the site that was read
    for _, row in survey.items(graph):
        if not isinstance(row, (OpRow, ReadRow, EnterRow)) or row.site is None:
            continue
        site = survey.sites[row.site]
        if waiting:
            for branch in site.branches:
                read = waiting.pop((site.file, branch.line, branch.column), None)
                if read is not None:
                    yield read, branch.arm
        if isinstance(row, ReadRow) and _unclear(site):
            assert site.test is not None
            waiting[(site.file, site.test.line, site.test.column)] = row.site
