"""Batched runs for the page: a list of all, and for the first ones every group in a chunk of its own."""

from __future__ import annotations

from itertools import islice

from plait.graph import Site
from plait.recording import Recording, batch_flushes, batch_groups, batches
from plait.views._wire import Columns, Table

MOST = 2000  # runs in the list


def batch_list(recording: Recording) -> list[Columns]:
    """The first `MOST` batched runs, each in numbers."""
    if not recording._all("SELECT 1 FROM sqlite_master WHERE name = 'batch'"):
        return []  # recorded before batched runs were written down
    known = {number for (number,) in recording._all("SELECT DISTINCT batch FROM batch_group")}
    return [
        {
            "id": each.id, "step": each.step, "site": _number(each.site), "examples": each.examples,
            "calls": each.calls, "groups": each.groups, "flushes": each.flushes, "ns": each.ns, "loop": each.loop,
            "hint": each.hint, "reads": [[_number(site), times] for site, times in each.reads],
            "alone": [list(line) for line in each.alone], "detail": each.id in known,
        }
        for each in islice(batches(recording), MOST)
    ]  # fmt: skip


def batch_chunk(recording: Recording, batch: int) -> Columns:
    """The groups of one batched run in the order in which they ran, and why what waited was run."""
    groups = batch_groups(recording, batch)
    names = Table()
    return {
        "name": [names(each.name) for each in groups],
        "names": names.items,
        "flush": [each.flush for each in groups],
        "width": [each.width for each in groups],
        "ns": [each.ns for each in groups],
        "examples": [list(each.examples) for each in groups],
        "places": [[[_number(site), count] for site, count in each.places] for each in groups],
        "flushes": [[each.id, _number(each.site), each.waiting] for each in batch_flushes(recording, batch)],
    }


def _number(site: Site | None) -> int:
    return -1 if site is None else site.id
