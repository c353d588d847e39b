"""The decisions of a run, one entry a place in the source: how often, which way, how close."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait.decisions._arms import Verdict, arms_seen, verdict_of
from plait.decisions._survey import Survey
from plait.graph._rows import ReadRow
from plait.graph._site import Site, Test
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
    same = _same_places(survey)
    for total in read_totals(survey.recording):
        number = same.get(total.site, total.site)
        tally = tallies.setdefault((number, total.how), _Tally(total.how, total.comparison))
        tally.count += total.runs
        if total.outcome is not None:
            tally.bools[total.outcome] = tally.bools.get(total.outcome, 0) + total.runs
            verdict = verdict_of(survey.site(total.site))
            if verdict is not None and (outcome := verdict(total.outcome)) is not None:
                tally.tested[outcome] = tally.tested.get(outcome, 0) + total.runs
    sampled = _read_numbers(survey, tallies, same, budget) if tallies else False
    in_parts = any(verdict_of(survey.site(number)) is not None for number, _ in tallies)
    arms = arms_seen(survey, same) if in_parts else {}
    places = [
        _place(survey.site(number), tally, {} if number is None else arms.get(number, {}), sampled)
        for (number, _), tally in tallies.items()
    ]
    return tuple(sorted(places, key=_source_order))


def _source_order(place: Place) -> tuple[str, int, int, str]:
    if place.site is None:
        return ("\uffff", 0, 0, place.how)
    return (place.site.file, place.site.line, place.site.column or 0, place.how)


def _same_places(survey: Survey) -> dict[int | None, int]:
    """For every site the first one of the same text: Python writes the test of a `while` twice."""
    first: dict[tuple[object, ...], int] = {}
    found: dict[int | None, int] = {}
    for number, site in survey.sites.items():
        place = (site.file, site.line, site.column, site.end_line, site.end_column, site.function)
        found[number] = number if site.column is None else first.setdefault(place, number)
    return found


def _read_numbers(
    survey: Survey, tallies: dict[tuple[int | None, str], _Tally], same: dict[int | None, int], budget: int
) -> bool:
    """Fill in the numbers; True if only part of the steps could be looked at."""
    sizes = {built.graph for built in survey.graphs if built.decisions}
    every = -(-sum(built.steps * built.decisions for built in survey.graphs) // budget) or 1
    is_read = read_rows(survey.recording)
    tables: dict[int, list[tuple[_Tally, Verdict | None]]] = {}
    for step, graph, reads in step_reads(survey.recording, sizes, every):
        table = tables.get(graph)
        if table is None:
            table = tables[graph] = []
            for token in survey.recording.tokens(graph):
                if token in is_read:
                    row = survey.rows[token]
                    assert isinstance(row, ReadRow)
                    number = same.get(row.site, row.site)
                    tally = tallies.setdefault((number, row.how), _Tally(row.how, row.comparison))
                    table.append((tally, None if row.outcome is not None else verdict_of(survey.site(row.site))))
        for (tally, verdict), read in zip(table, reads):
            if tally.first_step is None:
                tally.first_step = step
            value, left, right = read if len(read) == 3 else (*read, None, None, None)[:3]
            if value is not True and value is not False and isinstance(value, (int, float)):
                tally.numbers += 1
                tally.total += value
                tally.low = min(tally.low, value)
                tally.high = max(tally.high, value)
            if verdict is not None and isinstance(value, (int, float)):
                if (outcome := verdict(value)) is not None:
                    tally.tested[outcome] = tally.tested.get(outcome, 0) + 1
                if verdict.constant is not None:
                    left, right = float(value), verdict.constant
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
        # Both know a part: values that decide the test, and operations that ran in an arm of it.
        outcomes = {
            outcome: max(tally.tested.get(outcome, 0), seen.get(outcome, 0))
            for outcome in (True, False)
            if outcome in tally.tested or outcome in seen
        }
    else:
        outcomes = tally.bools
    arms = tuple(
        Arm(outcome, outcomes[outcome], *_arm(test, outcome)) for outcome in (True, False) if outcome in outcomes
    )
    numbers = None
    if tally.numbers:
        numbers = Numbers(tally.numbers, tally.low, tally.total / tally.numbers, tally.high)
    decides = test is not None or bool(tally.bools) or tally.how in ("nonzero", "mask", "index")
    return Place(
        site, tally.how, tally.comparison, tally.count, arms, numbers, tally.closest, tally.closest_step,
        tally.first_step, decides, sampled,
    )  # fmt: skip


def _arm(test: Test | None, outcome: bool) -> tuple[int | None, str | None]:
    if test is None:
        return None, None
    return (test.true_line, test.true_text) if outcome else (test.false_line, test.false_text)
