"""Steps: where a round of the program ends, and what is kept of it.

A step ends at an optimizer's step, or at a backward pass that none follows; without backward at each call of an
outermost module; or where the program says `rec.step()`. The end is only *armed* there: what the program still reads
(`loss.item()`) belongs to the step that is over, and the next tensor it makes begins the next one.

Where a step began is known afterwards, see NOTE [Where a step began] in `_cuts.py`.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

from plait._torch import DisableTorchFunction
from plait.graph._memory import saved_bytes
from plait.graph._rows import BackwardRow, EventRow, InputRow, OpRow, ReadRow
from plait.graph._shape import hash_of_digests, hash_of_items
from plait.recorder._backward import BackwardWatch, NodeStats
from plait.recorder._cuts import ON_THE_WAY, Cuts, Mark
from plait.recorder._parts import step_parts
from plait.recorder._tape import SAMPLED_STEPS, Tape
from plait.recorder._unwritten import Unwritten, to_json
from plait.recording._writer import NewGraph, Writer

LONGEST_STEP: Final = 2_000_000  # rows; a longer step is cut, so that memory stays bounded
CALLS_TOGETHER: Final = 256  # outermost module calls that wait for a backward pass before they count as steps,
MOST_CALLS: Final = 4096  # this many where autograd builds a graph, which a backward pass may still use
TIMED_GRAPHS: Final = 200  # graphs of which the duration of each operation is kept
FLUSH_EVERY: Final = 0.5  # seconds
FIRST_CENSUS: Final = 8  # steps
MOST_BINDINGS: Final = 20_000  # ways in which leaves were the inputs of graphs


class Steps:
    """Closes steps and hands them to the writer."""

    def __init__(self, tape: Tape, watch: BackwardWatch, writer: Writer, limit: int) -> None:
        self.tape = tape
        self.watch = watch
        self.writer = writer
        self.limit = limit
        self.count = 0
        self.programs: set[str] = set()
        self.optimizers_seen = False
        self._looked_for_optimizers = False
        self.find_optimizers: Callable[[], bool] = lambda: False
        self.grad_norm: float | None = None
        self._next_census = FIRST_CENSUS
        self._cuts = Cuts(tape)
        self._unwritten = Unwritten(tape, writer)
        self._known: dict[bytes, tuple[int, int]] = {}
        self._bindings: set[tuple[bytes, tuple[int, ...]]] = set()
        self._end: Mark | None = None
        self._calls: list[Mark] = []
        self._zeroed = False
        self._limit_noted = False
        self._begin = self._start = time.perf_counter()
        self._last_flush = self._begin
        tape.on_armed = self.goes_on
        tape.on_deadline = self.tick

    # -- what happens in a step -----------------------------------------------------------------------------------

    def mark(self, site: int | None) -> Mark:
        """This moment."""
        tape = self.tape
        return Mark(len(tape.tokens), [(each.place, each.site) for each in tape.calls.stack], site)

    def backward_done(self, site: int | None, create_graph: bool) -> None:
        """A backward pass is over. It ends the step unless an optimizer is at work, or its result goes on."""
        self._end = self.mark(site)
        self.tape.armed = not self.optimizers_seen and not create_graph

    def optimizer_done(self, site: int | None) -> None:
        """An optimizer has made a step."""
        self.optimizers_seen = True
        self._end = self.mark(site)
        self.tape.armed = True

    def zero_grad(self, owner: str, frame: Any) -> None:
        """Gradients were reset. Between two steps it belongs to the one that has no reset of its own yet."""
        tape = self.tape
        if tape.armed and self._zeroed:
            self.close()
        self._zeroed = True
        tape.append(EventRow("zero_grad", owner, tape.calls.site_of(frame), ()))

    def call_begins(self, caller: Any) -> None:
        """A module is called, from the frame `caller`, that no module called."""
        if self.tape.armed:
            self.goes_on()
        pending = len(self._calls)
        if pending >= CALLS_TOGETHER and not self.watch.count:
            alone = self.tape.no_graph_built() or (not self.watch.ever and pending >= MOST_CALLS)
            if alone:
                self.close()
        self._calls.append(self.mark(self.tape.calls.site_of(caller)))

    def goes_on(self) -> None:
        """The program works on after what may have ended a step."""
        if not self.optimizers_seen and not self._looked_for_optimizers:
            # The first backward pass that no optimizer followed: it may still gather gradients for one that was made
            # before the recording. The search goes through everything that lives, so it is made once, and only here.
            self._looked_for_optimizers = True
            self.optimizers_seen = self.find_optimizers()
            if self.optimizers_seen:
                self.tape.armed = False
                return
        self.close()

    # -- the end of a step ----------------------------------------------------------------------------------------

    def close(self, complete: bool = True) -> None:
        """End the step under way."""
        tape = self.tape
        tape.armed = False
        # What ends the step is an operation, a read, an event. Leaving `no_grad` or a function afterwards is not: the
        # last round of a loop is like the others. The next step says itself how it begins.
        while tape.tokens and tape.rows[tape.tokens[-1]].row.kind in ON_THE_WAY:
            for each in (tape.tokens, tape.numbers, tape.times):
                each.pop()
        if not tape.tokens:
            return
        now = time.perf_counter()
        numbers = array("I", tape.tokens)
        digest = _digest(numbers)
        cuts = [] if digest in self._known else self._cuts.places(self._end, self._calls)
        if cuts:
            calls = [call.place for call in self._calls]
            edges = [0, *cuts, len(tape.tokens)]
            for number, part in enumerate(step_parts(tape, cuts, calls, self.watch.stats, self._start, now)):
                self._keep_batches(edges[number], edges[number + 1])
                digest = _digest(part.tokens)
                self._keep(part.tokens, digest, part.times, part.reads, part.samples, part.kind, part.start, part.end,
                           complete or number < len(cuts), part.stats)  # fmt: skip
                self._bind(digest, part.leaves)
        else:
            kind = "train" if self.watch.count else "forward" if self._calls else "rest"
            self._keep_batches(0, len(tape.tokens))
            self._keep(numbers, digest, tape.times, tape.reads, tape.samples, kind, self._start, now, complete,
                       self.watch.stats)  # fmt: skip
            self._bind(digest, tuple(tape.bound))
        self._start = now
        self._end = None
        self._calls.clear()
        self._zeroed = False
        self.watch.count = 0
        self.watch.loss = None
        self.grad_norm = None
        self.watch.stats.clear()
        tape.clear()
        if self.count >= self._next_census:
            self._census()
        tape.sampling = self.count < SAMPLED_STEPS
        if tape.sampling:
            tape.deadline = 0
        if now - self._last_flush > FLUSH_EVERY or self.writer.waiting > 5000:
            self.flush()

    def finish(self, complete: bool = True) -> None:
        """End the last step and write everything."""
        self.close(complete)
        self.flush()

    def tick(self) -> None:
        """Called about once a second from inside a long step."""
        if len(self.tape.tokens) > LONGEST_STEP:
            self.writer.add("note", [(None, "cut", f"step {self.count} was cut at {LONGEST_STEP:,} rows.")])
            self.close()
        if time.perf_counter() - self._last_flush > FLUSH_EVERY:
            self.flush(open_step=True)

    def _keep(
        self, numbers: array[int], digest: bytes, times: Sequence[int], reads: Sequence[Any],
        samples: Sequence[Any], kind: str, start: float, end: float, complete: bool, stats: Sequence[NodeStats],
    ) -> None:  # fmt: skip
        known = self._known.get(digest)
        if known is None:
            made = self._new_graph(numbers, times)
            if made is None:
                return
            known = made.id, made.saved_bytes
            self.programs.add(made.program)
            if len(self._known) < self.limit:
                self._known[digest] = known
                self.writer.add_graph(made)
                for place, output, what, elements in samples:
                    self.writer.add("sample", [(made.id, place, output, what, to_json(elements))])
            else:
                known = -1, made.saved_bytes
                self._note_limit()
        if stats and kind == "train":
            self.writer.add("backward", [(self.count, *each) for each in stats])
        self.writer.add_step(
            (
                self.count, known[0] if known[0] >= 0 else None, kind, start - self._begin, int((end - start) * 1e9),
                sum(times), self.watch.loss if kind == "train" else None, self.grad_norm, known[1], int(complete),
            ),
            reads if known[0] >= 0 else (),
        )  # fmt: skip
        self.count += 1

    def _keep_batches(self, low: int, high: int) -> None:
        """The batched runs between two places of the tape belong to the step that is kept next."""
        rows = [(number, self.count, *row) for place, number, row in self.tape.batches if low <= place <= high]
        self.writer.add("batch", rows)

    def _census(self) -> None:
        """Count what earlier steps have left alive with its graph, each time the number of steps has doubled."""
        self._next_census = 2 * self.count
        alive: dict[int, list[int]] = {}
        with DisableTorchFunction():
            for each in self.tape.earlier.values():
                tensor = each.tensor()
                if tensor is not None and each.site is not None and tensor.grad_fn is not None:
                    counts = alive.setdefault(each.site, [0, 0])
                    counts[0] += 1
                    counts[1] += tensor.nbytes
        self.writer.add("living", [(self.count - 1, site, *counts) for site, counts in alive.items() if counts[0] > 3])

    def _bind(self, digest: bytes, leaves: tuple[int, ...]) -> None:
        """Note which leaves the inputs of the step were that was kept last."""
        key = digest, leaves
        if key not in self._bindings and any(leaf >= 0 for leaf in leaves):
            graph = self._known.get(digest, (-1, 0))[0]
            if graph >= 0 and len(self._bindings) < MOST_BINDINGS:
                self._bindings.add(key)
                self.writer.add("binding", [(graph, self.count - 1, to_json(leaves))])

    def _new_graph(self, tokens: array[int], times: Sequence[int]) -> NewGraph | None:
        facts = [self.tape.rows[token] for token in tokens]
        rows = [each.row for each in facts]
        operations = sum(isinstance(row, OpRow) for row in rows)
        decisions = sum(isinstance(row, ReadRow) for row in rows)
        if not operations and not decisions and not any(isinstance(row, (BackwardRow, EventRow)) for row in rows):
            return None
        nodes = operations + sum(isinstance(row, InputRow) for row in rows)
        items = {each.item for each in facts if each.item is not None}
        timed = len(self._known) < TIMED_GRAPHS
        return NewGraph(
            len(self._known), tokens, hash_of_digests(each.tight for each in facts),
            hash_of_digests(each.loose for each in facts), hash_of_items(items), nodes, operations, decisions,
            saved_bytes(rows), array("I", [min(each, 0xFFFFFFFF) for each in times]) if timed else None,
        )  # fmt: skip

    def _note_limit(self) -> None:
        if not self._limit_noted:
            self._limit_noted = True
            self.writer.add(
                "note",
                [(None, "limit", f"The limit of {self.limit:,} distinct graphs was reached at step {self.count}; later"
                  " steps with new graphs keep their own numbers but no graph (raise it with limit=).")],
            )  # fmt: skip

    # -- writing ------------------------------------------------------------------------------------------------

    def flush(self, open_step: bool = False) -> None:
        """Write what waits; with `open_step` also the step that is under way."""
        with self.writer.lock:
            self._flush(open_step)

    def _flush(self, open_step: bool) -> None:
        tape, writer = self.tape, self.writer
        self._unwritten.write()
        self._keep_batches(0, len(tape.tokens))
        graph = step = None
        if open_step and tape.tokens:
            graph = self._new_graph(array("I", tape.tokens), tape.times)
            if graph is not None:
                step = (self.count, graph.id, "train" if self.watch.count else "rest", self._start - self._begin,
                        int((time.perf_counter() - self._start) * 1e9), sum(tape.times), self.watch.loss, None,
                        graph.saved_bytes, 0)  # fmt: skip
        writer.set_meta(seconds=round(time.perf_counter() - self._begin, 3))
        writer.flush(graph, step, tape.reads)
        self._last_flush = time.perf_counter()


def _digest(tokens: array[int]) -> bytes:
    return hashlib.blake2b(tokens.tobytes(), digest_size=16).digest()
