"""Sparklines of decisions: for each place, how it fell over the steps, in at most SLOTS slots."""

from __future__ import annotations

from collections.abc import Sequence

from plait.decisions import Place, Survey
from plait.graph._rows import ReadRow
from plait.graph._site import Site
from plait.recording import read_rows, step_reads

SLOTS = 120
_BUDGET = 200_000  # single reads that are looked at


def sparks(survey: Survey, places: Sequence[Place]) -> dict[int, list[float | None]]:
    """By the number of a place: for each slot the share of True, or the mean of the numbers read; None: not asked."""
    recording = survey.recording
    steps = len(recording.steps)
    sizes = {built.graph for built in survey.graphs if built.decisions}
    if not steps or not sizes:
        return {}
    by_site = {(_where(place.site), place.how): index for index, place in enumerate(places)}
    every = -(-sum(built.steps * built.decisions for built in survey.graphs) // _BUDGET) or 1
    is_read = read_rows(recording)
    owners: dict[int, list[int | None]] = {}
    slots = min(SLOTS, steps)
    sums: dict[int, list[list[float]]] = {}
    for step, graph, reads in step_reads(recording, sizes, every):
        if graph not in owners:
            rows = [survey.rows[token] for token in recording.tokens(graph) if token in is_read]
            owners[graph] = [
                by_site.get((_where(survey.site(row.site)), row.how)) if isinstance(row, ReadRow) else None
                for row in rows
            ]
        slot = min(step * slots // steps, slots - 1)
        for owner, read in zip(owners[graph], reads):
            value = read[0]
            if owner is None or not isinstance(value, (bool, int, float)) or value != value:
                continue
            cell = sums.setdefault(owner, [[0.0, 0.0] for _ in range(slots)])[slot]
            cell[0] += min(max(float(value), -1e300), 1e300)
            cell[1] += 1
    return {
        owner: [float(f"{total / count:.4g}") if count else None for total, count in cells]
        for owner, cells in sums.items()
    }


def _where(site: Site | None) -> tuple[str, int, int | None, str] | None:
    """One place of the source may be several instructions, and so several sites."""
    return None if site is None else (site.file, site.line, site.column, site.expression)
