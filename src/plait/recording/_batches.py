"""Batched runs: what each did, and for the first ones every group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from plait.graph import Site
from plait.recording._model import Batch, BatchFlush, BatchGroup
from plait.recording._reader import Recording


def batches(recording: Recording) -> Iterator[Batch]:
    """The calls of functions of `plait.batch`, in order."""
    for row in recording._all(
        "SELECT id, step, site, examples, calls, groups, flushes, ns, loop, hint, reads, alone FROM batch ORDER BY id"
    ):
        number, step, site, *numbers, loop, hint, reads, alone = row
        apart = tuple((name, why, times) for name, why, times in json.loads(alone))
        yield Batch(*(number, step, _site(recording, site), *numbers, loop, hint, _places(recording, reads), apart))


def batch_groups(recording: Recording, batch: int) -> list[BatchGroup]:
    """The groups of a batched run in the order in which they ran; none for runs of which only the sums are kept."""
    return [
        BatchGroup(*(*fields, tuple(json.loads(examples)), _places(recording, places)))
        for *fields, examples, places in recording._all(
            "SELECT id, flush, name, width, ns, examples, places FROM batch_group WHERE batch = ? ORDER BY id", batch
        )
    ]


def batch_flushes(recording: Recording, batch: int) -> list[BatchFlush]:
    """Why what waited in a batched run was run, each time; none for runs of which only the sums are kept."""
    return [
        BatchFlush(number, _site(recording, site), waiting)
        for number, site, waiting in recording._all(
            "SELECT id, site, waiting FROM batch_flush WHERE batch = ? ORDER BY id", batch
        )
    ]


def _site(recording: Recording, number: Any) -> Site | None:
    return None if number is None or number < 0 else recording.site(number)


def _places(recording: Recording, text: str) -> tuple[tuple[Site | None, int], ...]:
    return tuple((_site(recording, site), count) for site, count in json.loads(text))
