"""Errors of the program that were explained when they happened, as findings of the rules they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plait.recording import Failure
from plait.rules._case import Run
from plait.rules._rule import Finding, Where


def of_cause(run: Run) -> Iterator[Finding]:
    """The explained errors whose cause is the rule that is asked now; errors at the same lines are one finding."""
    found: dict[tuple[Where, ...], list[int]] = {}
    first: dict[tuple[Where, ...], Any] = {}
    for each in getattr(run.recording, "failures", ()):
        if each.cause != run.rule[0]:
            continue
        places = tuple(
            Where(place.role, _whole(run, place.file), place.line, place.expression) for place in each.places
        )
        if places:
            first.setdefault(places, each)
            found.setdefault(places, []).append(each.step)
    for places, steps in found.items():
        failure = first[places]
        yield run.finding(
            failure.fact,
            failure.consequence,
            failure.cure,
            places,
            steps=steps,
            errors=len(steps),
            raised=failure.error,
        )


def finding_of(failure: Failure) -> Finding:
    """An explained error as a finding."""
    places = tuple(Where(each.role, each.file, each.line, each.expression) for each in failure.places)
    return Finding(
        failure.cause, failure.category, failure.fact, failure.consequence, failure.cure, places,
        steps=(failure.step,), count=1, facts={"raised": failure.error},
    )  # fmt: skip


def _whole(run: Run, file: str) -> str:
    """The file as the recording's sites name it: notes on errors shorten it for reading."""
    known = {site.file for site in run.recording.sites.values()}
    if file in known:
        return file
    return next((each for each in sorted(known) if each.endswith("/" + file.lstrip("./"))), file)
