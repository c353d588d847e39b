"""Steps: where a round of the program ends, and what is kept of it.

A step ends at an optimizer's step, or at a backward pass that none follows; without backward at each call of an
outermost module; or where the program says `rec.step()`. The end is only *armed* there: what the program still reads
(`loss.item()`) belongs to the step that is over, and the next tensor it makes begins the next one.

Where a step began is known afterwards: at the start of the iteration of the loop in which its end stands. What ran
before that (setup, an evaluation between two epochs) becomes steps of its own.
"""

from __future__ import annotations

import hashlib
import json
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

import torch

from plait.graph._rows import BackwardRow, EnterRow, EventRow, InputRow, OpRow, ReadRow, ReturnRow, Row
from plait.graph._shape import hash_of_digests, hash_of_items
from plait.graph._split import split
from plait.recorder._backward import BackwardWatch, NodeStats
from plait.recorder._tape import SAMPLED_STEPS, Tape
from plait.recording._writer import NewGraph, Writer

LONGEST_STEP: Final = 2_000_000  # rows; a longer step is cut, so that memory stays bounded
CALLS_TOGETHER: Final = 256  # outermost module calls that wait for a backward pass before they count as steps,
MOST_CALLS: Final = 4096  # this many where autograd builds a graph, which a backward pass may still use
TIMED_GRAPHS: Final = 200  # graphs of which the duration of each operation is kept
ON_THE_WAY: Final = frozenset({"enter", "return", "mode"})  # rows that say where the program is, not what it does
HOLDS_WORK: Final = frozenset({"op", "read", "backward"})
FLUSH_EVERY: Final = 0.5  # seconds
FIRST_CENSUS: Final = 8  # steps
MOST_BINDINGS: Final = 20_000  # ways in which leaves were the inputs of graphs


@dataclass(slots=True)
class Mark:
    """A moment in the step: the functions under way (the place of their EnterRow, their call site) and the site."""

    place: int
    frames: list[tuple[int, int | None]]
    site: int | None


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
        self._known: dict[bytes, tuple[int, int]] = {}
        self._bindings: set[tuple[bytes, tuple[int, ...]]] = set()
        self._end: Mark | None = None
        self._calls: list[Mark] = []
        self._call_depth = 0
        self._zeroed = False
        self._limit_noted = False
        self._begin = self._start = time.perf_counter()
        self._written = (0, 0, 0, 0)
        self._counts_written: list[int] = []
        self._last_flush = self._begin
        tape.on_armed = self.goes_on
        tape.on_deadline = self.tick

    # -- what happens in a step -----------------------------------------------------------------------------------

    def mark(self, site: int | None) -> Mark:
        """This moment."""
        tape = self.tape
        return Mark(len(tape.tokens), [(each.place, each.site) for each in tape.stack], site)

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
        tape.append(EventRow("zero_grad", owner, tape.site_of(frame), ()))

    def call_begins(self, caller: Any) -> None:
        """A module is called, from the frame `caller`, that no module called."""
        if self.tape.armed:
            self.goes_on()
        pending = len(self._calls)
        if pending >= CALLS_TOGETHER and not self.watch.count:
            alone = self.tape.no_graph_built() or (not self.watch.ever and pending >= MOST_CALLS)
            if alone:
                self.close()
        self._calls.append(self.mark(self.tape.site_of(caller)))

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
        cuts = [] if digest in self._known else self._cuts()
        if cuts:
            self._close_in_parts(cuts, now, complete)
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
                    self.writer.add("sample", [(made.id, place, output, what, _json(elements))])
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
        with torch._C.DisableTorchFunction():
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
                self.writer.add("binding", [(graph, self.count - 1, _json(leaves))])

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

    # -- where the step began ---------------------------------------------------------------------------------------

    def _cuts(self) -> list[int]:
        """The places at which the rows of the step fall into several steps."""
        if self._end is not None:
            start = self._iteration_start(self._end)
            cuts = [*self._between_calls([call for call in self._calls if call.place < start]), start]
        else:
            cuts = self._between_calls(self._calls)
        # A part that holds nothing but the functions under way is none.
        return [
            cut for before, cut in zip([0, *cuts], cuts)
            if 0 < cut < len(self.tape.tokens) and self._holds(HOLDS_WORK | {"mode"}, before, cut)
        ]  # fmt: skip

    def _between_calls(self, calls: Sequence[Mark]) -> list[int]:
        cuts: list[int] = []
        for earlier, call in zip((None, *calls), calls):
            start = self._iteration_start(call)
            if earlier is not None:
                start = self._last_iteration(earlier, call)
            if start > (cuts[-1] if cuts else 0):
                cuts.append(start)
        return cuts

    def _holds(self, kinds: frozenset[str], start: int, end: int) -> bool:
        rows, tokens = self.tape.rows, self.tape.tokens
        return any(rows[tokens[place]].row.kind in kinds for place in range(start, end))

    def _iteration_start(self, end: Mark) -> int:
        """The first place inside the innermost loop around `end`; 0 where no loop is known."""
        found = self._loop_around(end)
        if found is None:
            return 0
        level, chain = found
        for place, site in self._sites_at(level, end.frames[level][0], end.place):
            if self._loops(site)[: len(chain)] == chain:
                return self._with_its_inputs(place)
        return 0

    def _last_iteration(self, earlier: Mark, call: Mark) -> int:
        """Where the iteration with this call begins, if it began after the `earlier` call; else the call itself."""
        found = self._loop_around(call)
        if found is not None:
            level, chain = found
            start: int | None = None
            last: tuple[bool, int] | None = None
            enter = call.frames[level][0]
            for place, site in self._sites_at(level, enter, call.place):
                body = self.tape.sites.bodies[site]
                inside = self._loops(site)[: len(chain)] == chain
                if not inside:
                    last = None
                    continue
                order = not body[12], body[5]
                if site != earlier.site and (last is None or order <= last) and place > earlier.place:
                    start = place
                last = order
            if start is not None:
                return self._with_its_inputs(start)
        return self._with_its_inputs(call.place)

    def _loop_around(self, mark: Mark) -> tuple[int, tuple[Any, ...]] | None:
        sites = [site for _, site in mark.frames[1:]] + [mark.site]
        for level in range(len(mark.frames) - 1, -1, -1):
            site = sites[level]
            if site is not None and (chain := self._loops(site)):
                return level, chain
        return None

    def _loops(self, site: int) -> tuple[Any, ...]:
        loops: tuple[Any, ...] = self.tape.sites.bodies[site][9]
        return loops

    def _sites_at(self, level: int, enter: int, end: int) -> Iterator[tuple[int, int]]:
        """(place, site) of everything that ran in, or was called from, the frame that began at the place `enter`."""
        tape = self.tape
        depth = level
        for place in range(enter + 1, min(end + 1, len(tape.tokens))):
            row = tape.rows[tape.tokens[place]].row
            if isinstance(row, EnterRow):
                depth += 1
                if depth == level + 1 and row.site is not None:
                    yield place, row.site
            elif isinstance(row, ReturnRow):
                depth -= row.levels
            elif depth == level and (site := getattr(row, "site", None)) is not None and row.kind != "input":
                yield place, site

    def _with_its_inputs(self, place: int) -> int:
        """Inputs stand right before the row that first uses them: the cut goes before those."""
        tape = self.tape
        while place > 0 and tape.rows[tape.tokens[place - 1]].row.kind in ("input", "alias"):
            place -= 1
        return place

    def _close_in_parts(self, cuts: list[int], now: float, complete: bool) -> None:
        tape = self.tape
        rows = [tape.rows[token].row for token in tape.tokens]
        inputs = tape.inputs_by_place()
        parts = split(rows, cuts, tape.types, lambda place, output: inputs.get((place, output)))
        reads = list(tape.reads)
        calls = [call.place for call in self._calls]
        weights = [max(1, sum(tape.times[a:b])) for a, b in zip([0, *cuts], [*cuts, len(rows)])]
        start, total = self._start, sum(weights)
        leaf_at = {(place, 0): leaf for place, leaf in zip(tape.input_places, tape.bound)}
        for index, part in enumerate(parts):
            while part.rows and part.rows[-1].kind in ON_THE_WAY:
                part.rows.pop()
                part.places.pop()
            tokens = array(
                "I",
                [
                    tape.number_of(row, tape.rows[tape.tokens[place]].offsets if place is not None else ())
                    for row, place in zip(part.rows, part.places)
                ],
            )
            times = [0 if place is None else tape.times[place] for place in part.places]
            mine = sum(isinstance(row, ReadRow) for row in part.rows)
            where = {place: here for here, place in enumerate(part.places) if place is not None}
            # A leaf stands where the part has it as an input, which may be a row that the cut added.
            input_rows = [here for here, row in enumerate(part.rows) if isinstance(row, InputRow)]
            entered = dict(zip(part.inputs, input_rows))
            places = [
                entered.get((each.place, 0)) if each.nth < 0 else where.get(each.place) for each in self.watch.stats
            ]
            stats = [each._replace(place=here) for each, here in zip(self.watch.stats, places) if here is not None]
            samples = [(where[place], *rest) for place, *rest in tape.samples if place in where]
            last = index == len(parts) - 1
            end = now if last else start + (now - self._start) * weights[index] / total
            low = cuts[index - 1] if index else 0
            high = len(rows) if last else cuts[index]
            trained = any(isinstance(row, BackwardRow) for row in part.rows)
            called = any(low <= place < high for place in calls)
            kind = "train" if trained else "forward" if called else "rest"
            self._keep_batches(low, high)
            self._keep(tokens, _digest(tokens), times, reads[:mine], samples, kind, start, end, complete or not last,
                       stats)  # fmt: skip
            self._bind(_digest(tokens), tuple(leaf_at.get(origin, -1) for origin in part.inputs))
            del reads[:mine]
            start = end

    # -- writing ------------------------------------------------------------------------------------------------

    def flush(self, open_step: bool = False) -> None:
        """Write what waits; with `open_step` also the step that is under way."""
        with self.writer.lock:
            self._flush(open_step)

    def _flush(self, open_step: bool) -> None:
        tape, writer = self.tape, self.writer
        types, sites, scopes, rows = self._written
        writer.add("type", [(n, _json(tape.types[n])) for n in range(types, len(tape.types))])
        writer.add("site", [(n, _json(tape.sites.bodies[n])) for n in range(sites, len(tape.sites.bodies))])
        writer.add("scope", [(n, _json(tape.scopes.bodies[n])) for n in range(scopes, len(tape.scopes.bodies))])
        writer.add(
            "row",
            [
                (n, tape.rows[n].row.kind, _json(tape.rows[n].row[:-1]), 0, 0) for n in range(rows, len(tape.rows))
            ],
        )  # fmt: skip
        writer.add("leaf", [tuple(each) for each in tape.leaves.changes()])
        self._written = len(tape.types), len(tape.sites.bodies), len(tape.scopes.bodies), len(tape.rows)
        self._counts_written += [0] * (len(tape.counts) - len(self._counts_written))
        changed = [each for each in tape.counts if each[2] != self._counts_written[each[0]]]
        for each in changed:
            self._counts_written[each[0]] = each[2]
        writer.update_rows([(each[2], each[1], each[0]) for each in changed])
        for file in list(tape.sites.sources):
            writer.add_source(file, tape.sites.sources.pop(file))
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


def saved_bytes(rows: Sequence[Row]) -> int:
    """Bytes that the backward nodes of a step keep; shared storages once, inputs of the step (parameters) not."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for place, row in enumerate(rows):
        if not isinstance(row, OpRow) or not row.saved:
            continue
        for _, source, which, nbytes in row.saved:
            if source == "own":
                total += nbytes
                continue
            if source == "argument":
                distance, output = row.arguments[which]
                root = _root(rows, place - distance, output) if distance > 0 else None
            else:
                root = _root(rows, place, which)
            if root is not None and root not in seen:
                seen.add(root)
                total += nbytes
    return total


def _root(rows: Sequence[Row], place: int, output: int) -> tuple[int, int] | None:
    """The value whose storage a value lives in; None for an input of the step."""
    while True:
        row = rows[place]
        if row.kind == "alias":
            distance, output = row.value  # type: ignore[union-attr]
        elif isinstance(row, OpRow):
            made = row.outputs[output]
            argument = made.base if made.base is not None else made.replaces
            if argument is None:
                return place, output
            distance, output = row.arguments[argument]
        else:
            return None
        if distance < 0:
            return None
        place -= distance


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), default=astuple)
