"""Batched runs: what `plait.batch` did with the calls of its examples, as it tells it.

The examples of a batch run interleaved, and their tensors hold no numbers, so their calls are no operations of the
step. The step has one node for the whole batch; the groups that ran, with their lines and examples, go into tables of
their own. The groups of the first runs are kept one by one, later runs with their sums.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from plait._torch import put_back, take_out
from plait._watch import Asked

if TYPE_CHECKING:
    from types import FrameType

    from torch import Tensor
    from torch.nn import Module

    from plait.recorder._recorder import Record

DETAILED: Final = 32  # batched runs of which every group is kept,
MOST_GROUPS: Final = 200_000  # as long as there are no more than these


class Batches:
    """The batched runs of a recording."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.count = 0
        self.groups = 0

    def begin(self, examples: int) -> BatchRun | None:
        """A batched run begins in this thread; None if it is none of ours to watch."""
        record = self._record
        if threading.get_ident() != record.recording_thread or record.in_optimizer or record.tape.backward_depth:
            return None
        return record.tape.guarded(self._begin, examples)

    def _begin(self, examples: int) -> BatchRun:
        tape = self._record.tape
        if tape.armed:
            tape.on_armed()
        run = BatchRun(self._record, self, self.count, tape.calls.site_of(sys._getframe(3)), examples)
        self.count += 1
        return run


class BatchRun:
    """One batched run, watched (see `plait._watch.BatchWatch`)."""

    def __init__(self, record: Record, batches: Batches, number: int, site: int | None, examples: int) -> None:
        self._record = record
        self._batches = batches
        self._number = number
        self._site = site
        self._examples = examples
        self._start = time.perf_counter_ns()
        self._places: list[int] = []  # where each call stands, by its number
        self._rows: list[tuple[Any, ...]] = []
        self._flushes: list[tuple[Any, ...]] = []
        self._detailed = number < DETAILED and batches.groups < MOST_GROUPS

    @contextmanager
    def lanes(self) -> Iterator[None]:
        """While the examples run, nothing of the recording is in their way."""
        record = self._record
        thread, record.recording_thread = record.recording_thread, None
        above = take_out(record.mode)
        try:
            yield
        finally:
            if above is not None and record.active:
                put_back(record.mode, above)
            record.recording_thread = thread if record.active else None

    def node(self) -> None:
        """Note where the call stands."""
        self._places.append(self._site_of(sys._getframe(1)))

    def _site_of(self, frame: FrameType | None) -> int:
        while frame is not None:
            site = self._site_at(frame.f_code, frame.f_lasti)
            if site >= 0:
                return site
            frame = frame.f_back
        return -1

    def _site_at(self, code: Any, offset: int) -> int:
        sites = self._record.tape.sites
        known = sites.of(code)
        if not isinstance(known, dict):
            return -1
        site = known.get(offset)
        return sites.learn(code, offset) if site is None else site

    def flush(self, waiting: int, asked: Asked | None) -> None:
        """Note why what waits runs now."""
        site = None if asked is None or asked[0] is None else self._site_at(*asked)
        self._flushes.append((self._number, len(self._flushes), site, waiting))

    def group(self, name: str, width: int, lanes: bytes, nodes: bytes, ns: int) -> None:
        """Note which calls ran together."""
        if not self._detailed:
            return
        places: dict[int, int] = {}
        for node in memoryview(nodes).cast("i"):
            place = self._places[node]
            places[place] = places.get(place, 0) + 1
        examples = memoryview(lanes).cast("i").tolist()
        self._rows.append(
            (self._number, len(self._rows), max(len(self._flushes) - 1, 0), name, width, ns, json.dumps(examples),
             json.dumps(sorted(places.items())))
        )  # fmt: skip

    def uses(self, modules: list[Module]) -> None:
        """Name the models' parameters: their calls were the examples' own, which the recording does not see."""
        tape = self._record.tape
        for module in modules:
            tape.guarded(tape.scopes.of, module)

    def seen(self, tensors: list[Tensor]) -> list[Tensor]:
        """What other operations of the step made or used: from there an arrow leads into the batch. Not data that only
        the batch reads, or each batch of other data would be a graph of its own."""
        tape = self._record.tape
        return [t for t in tensors if not t.requires_grad and tape.guarded(tape.knows, t)]

    def ends(self, report: Any) -> None:
        """Keep what the run did."""
        record = self._record
        reads: dict[int, int] = {}
        for asked, count in report.sites.items():
            site = -1 if asked[0] is None else self._site_at(*asked)
            reads[site] = reads.get(site, 0) + count
        alone = [[name, why, times] for (name, why), times in report.alone.items()]
        row = (
            self._site, self._examples, report.calls, sum(each.groups for each in report.groups.values()),
            report.flushes, time.perf_counter_ns() - self._start, report.loop or None, report.advice() or None,
            json.dumps(sorted(reads.items())), json.dumps(alone),
        )  # fmt: skip
        record.tape.batches.append((len(record.tape.tokens), self._number, row))
        self._batches.groups += len(self._rows)
        record.steps_keeper.writer.add("batch_group", self._rows)
        record.steps_keeper.writer.add("batch_flush", self._flushes if self._detailed else [])
