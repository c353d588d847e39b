"""Recording: reads what a recorder wrote. Opens files read-only and needs no torch."""

from __future__ import annotations

import json
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

from plait._errors import NotFoundError, RecordingError
from plait.graph import Graph, Hashes, Scope, Site, build
from plait.graph._course import Course, course, move
from plait.graph._executions import Move
from plait.graph._rows import Row, TensorType
from plait.recording._failure import Failure
from plait.recording._floats import floating
from plait.recording._model import BackwardStats, LineTime, Read, Sample, SeenDecision, Step, Variant
from plait.recording._tables import Rows, Types, Written, site_from


class Recording:
    """A run on disk (or in memory): its steps, its distinct graphs, its decisions.

    >>> recording = plait.load("run.plait")           # doctest: +SKIP
    >>> recording.steps[-1].loss                       # doctest: +SKIP
    >>> recording.graph.find("linear")                 # doctest: +SKIP
    """

    def __init__(self, connection: sqlite3.Connection, path: str | None) -> None:
        self._connection = connection
        self.path = path
        self._graph_of = lru_cache(maxsize=64)(self._build)
        self._course_of = lru_cache(maxsize=64)(self._follow)
        self._fields: dict[int, tuple[str, list[Any]]] = {}
        self._moves: dict[int, Move] = {}
        self._rows = Rows(
            Written(lambda *ends: self._all("SELECT id, kind, body FROM row WHERE id >= ? AND id < ?", *ends))
        )
        self._types = Types(
            Written(lambda *ends: self._all("SELECT id, body FROM type WHERE id >= ? AND id < ?", *ends))
        )
        self._sites: dict[int, Site] = {}
        self._scopes: dict[int, Scope] = {}

    # -- what there is ------------------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, str]:
        """Facts about the run: `program`, `arguments`, `started`, `seconds`, `python`, `torch`, `status`, ..."""
        return dict(self._all("SELECT key, value FROM meta ORDER BY key"))

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """(kind, sentence) of everything a reader must know, such as a limit that was reached."""
        return tuple(self._all("SELECT kind, text FROM note ORDER BY id"))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The errors of the program that plait could explain, in order."""
        return tuple(Failure.from_json(body) for (body,) in self._all("SELECT body FROM failure ORDER BY id"))

    @property
    def sources(self) -> dict[str, str]:
        """The program's own source files as they were when it ran."""
        return {
            file: zlib.decompress(text).decode(errors="replace")
            for file, text in self._all("SELECT file, text FROM source ORDER BY file")
        }

    @property
    def steps(self) -> Steps:
        """All steps, in order; a sequence that reads them from the file when they are asked for."""
        return Steps(self)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The distinct graphs, most often built first within each program."""
        programs: dict[str, int] = {}
        found = []
        for graph, count, first, shapes, structure, program, nodes, operations, decisions, saved in self._all(
            "SELECT g.id, IFNULL(s.steps, 0), s.first, g.shapes, g.structure, g.program, g.nodes, g.operations,"
            " g.decisions, g.saved_bytes FROM graph g LEFT JOIN"
            " (SELECT graph, COUNT(*) AS steps, MIN(id) AS first FROM step GROUP BY graph) s ON s.graph = g.id"
            " ORDER BY s.first"
        ):
            number = programs.setdefault(program, len(programs))
            hashes = Hashes(shapes, structure, program)
            found.append(Variant(graph, count, first or 0, number, nodes, operations, decisions, saved, hashes))
        return tuple(sorted(found, key=lambda each: (each.program, -each.steps, each.graph)))

    @property
    def graph(self) -> Graph:
        """The graph of the last complete step that ran a model or a backward pass; of the last step if none did."""
        for condition in ("complete AND kind != 'rest'", "kind != 'rest'", "1"):
            rows = self._all(f"SELECT graph FROM step WHERE graph IS NOT NULL AND {condition} ORDER BY id DESC LIMIT 1")
            if rows:
                return self.graph_number(rows[0][0])
        raise NotFoundError("the recording holds no graph: nothing was computed with tensors while it ran")

    @property
    def decisions(self) -> tuple[SeenDecision, ...]:
        """Every decision of every step, in order."""
        return tuple(self.iter_decisions())

    # -- one of it ----------------------------------------------------------------------------------------------

    def graph_number(self, number: int) -> Graph:
        """The distinct graph with this number (see `Step.graph`, `Variant.graph`)."""
        return self._graph_of(number)

    def graph_of(self, step: Step | int) -> Graph:
        """The graph that a step built."""
        step = step if isinstance(step, Step) else self.steps[step]
        if step.graph is None:
            raise NotFoundError(f"step {step.id} kept no graph: the limit of distinct graphs had been reached")
        return self.graph_number(step.graph)

    def iter_decisions(self) -> Iterator[SeenDecision]:
        """Every decision of every step, in order, without holding all of them."""
        for step in self.steps:
            if step.graph is None or not step.reads:
                continue
            graph = self.graph_number(step.graph)
            for decision, read in zip(graph.decisions, step.reads):
                yield SeenDecision(step.id, decision, graph.site_of(decision), read)

    def samples(self, graph: int) -> tuple[Sample, ...]:
        """Elements of the small tensors of a small graph, as the first step that built it had them."""
        rows = self._all("SELECT place, output, what, elements FROM sample WHERE graph = ? ORDER BY rowid", graph)
        node_at = self._node_numbers(self.tokens(graph)) if rows else {}
        return tuple(
            Sample(graph, node_at[place], output, what, json.loads(elements))
            for place, output, what, elements in rows
            if place in node_at
        )

    def durations(self, graph: int) -> tuple[int, ...] | None:
        """Nanoseconds of every node in the first step that built this graph, or None if they were not kept."""
        (blob,) = self._all("SELECT durations FROM graph WHERE id = ?", graph)[0]
        if blob is None:
            return None
        times = _numbers(blob)
        return tuple(times[place] for place in self._node_numbers(self.tokens(graph)))

    def backward_stats(self, step: int) -> tuple[BackwardStats, ...]:
        """What `values="stats"` measured in the backward passes of a step, in the order in which they ran."""
        found = self.steps[step]
        if found.graph is None:
            return ()
        rows = self._all(
            "SELECT place, nth, name, norm_in, norm_out, ns, first_nonfinite FROM backward WHERE step = ?"
            " ORDER BY rowid", step,
        )  # fmt: skip
        if not rows:
            return ()
        graph = self.graph_number(found.graph)
        node_at = self._node_numbers(self.tokens(found.graph))
        result = []
        for place, nth, name, norm_in, norm_out, ns, nonfinite in rows:
            if place not in node_at:
                continue
            node = node_at[place]
            made = graph.nodes[node].backward
            number = made[nth] if 0 <= nth < len(made) else -1
            norms = floating(norm_in), floating(norm_out)
            result.append(BackwardStats(step, number, node, name, *norms, ns, bool(nonfinite)))
        return tuple(result)

    def row_times(self) -> dict[int, LineTime]:
        """For every row that ran: how often and how long in the whole run (see `Node.row`)."""
        return {
            row: LineTime(row, count, ns)
            for row, count, ns in self._all("SELECT id, count, ns FROM row WHERE count > 0")
        }

    def row_sites(self) -> dict[int, int]:
        """The site of every row that has one."""
        self._load_tables()
        numbers = [number for (number,) in self._all("SELECT id FROM row ORDER BY id")]
        sites = {number: getattr(self._rows[number], "site", None) for number in numbers}
        return {number: site for number, site in sites.items() if site is not None}

    @property
    def rows(self) -> Mapping[int, Row]:
        """The rows that `tokens` points into (see `plait.graph._rows`), each read when it is asked for."""
        self._load_tables()
        return self._rows

    def row_fields(self, number: int) -> tuple[str, list[Any]]:
        """A row as it is written, its kind and its fields in order: three times as quick as making it an object."""
        found = self._fields.get(number)
        if found is None:
            kind, body = self._rows.written[number]
            found = self._fields[number] = kind, json.loads(body)
        return found

    def moves(self, tokens: Iterable[int]) -> Mapping[int, Move]:
        """What each of these rows means to `plait.graph._executions`; read without making objects of the rows."""
        for token in dict.fromkeys(tokens):
            if token not in self._moves:
                self._moves[token] = move(*self.row_fields(token))
        return self._moves

    def course(self, graph: int) -> Course:
        """In which region each row of a distinct graph happened; much quicker than the graph itself."""
        return self._course_of(graph)

    @property
    def sites(self) -> Mapping[int, Site]:
        """The places in the source, by number."""
        self._load_tables()
        return self._sites

    @property
    def types(self) -> Mapping[int, TensorType]:
        """What the type numbers in the rows stand for."""
        self._load_tables()
        return self._types

    def site(self, number: int) -> Site:
        """The place in the source with this number."""
        self._load_tables()
        return self._sites[number]

    def tokens(self, graph: int) -> array[int]:
        """The row numbers of a distinct graph, in order."""
        rows = self._all("SELECT tokens FROM graph WHERE id = ?", graph)
        if not rows:
            raise NotFoundError(f"there is no graph number {graph} in this recording")
        try:
            return _numbers(rows[0][0])
        except (zlib.error, TypeError, ValueError) as error:
            raise self._damaged(f"graph {graph}", error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        steps = len(self.steps)
        graphs = self._all("SELECT COUNT(*) FROM graph")[0][0]
        where = f" {self.path}" if self.path else ""
        return (
            f"<plait.Recording{where}: {steps} step{'' if steps == 1 else 's'},"
            f" {graphs} distinct graph{'' if graphs == 1 else 's'}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        variants = self.variants
        rows = "".join(
            f"<tr><td>{v.graph}</td><td>{v.program}</td><td>{v.steps}</td><td>{v.operations}</td>"
            f"<td>{v.decisions}</td></tr>"
            for v in variants[:10]
        )
        more = f"<p>and {len(variants) - 10} more</p>" if len(variants) > 10 else ""
        return (
            f"<p>{escape(repr(self))}</p><table><thead><tr><th>graph</th><th>program</th><th>steps</th><th>ops</th>"
            f"<th>decisions</th></tr></thead><tbody>{rows}</tbody></table>{more}"
        )

    # -- the file -----------------------------------------------------------------------------------------------

    def _all(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise broken(self.path, error) from None

    def _build(self, number: int) -> Graph:
        self._load_tables()
        rows = self._all("SELECT shapes, structure, program FROM graph WHERE id = ?", number)
        hashes = Hashes(*rows[0]) if rows else None
        try:
            tables = self._rows, self._types, self._sites, self._scopes
            return build(self.tokens(number), *tables, hashes, self._course_of(number))
        except (LookupError, TypeError, ValueError) as error:
            raise self._damaged(f"graph {number}", error) from error

    def _follow(self, graph: int) -> Course:
        self._load_tables()
        tokens = self.tokens(graph)
        return course(tokens, self._rows, self.moves(tokens), self._sites)

    def _damaged(self, what: str, error: Exception) -> RecordingError:
        reason = f"{type(error).__name__}: {error}"
        return RecordingError(f"{self.path or 'recording'}: the file is damaged, {what} cannot be read ({reason})")

    def _load_tables(self) -> None:
        """Read the parts of the tables that are new since the last call (a live recording grows)."""
        try:
            self._load_new()
        except (LookupError, TypeError, ValueError) as error:
            raise self._damaged("its tables", error) from error

    def _load_new(self) -> None:
        for number, body in self._all("SELECT id, body FROM site WHERE id > ?", max(self._sites, default=-1)):
            self._sites[number] = site_from(number, json.loads(body))
        for number, body in self._all("SELECT id, body FROM scope WHERE id > ?", max(self._scopes, default=-1)):
            self._scopes[number] = Scope(number, *json.loads(body))

    def _node_numbers(self, tokens: array[int]) -> dict[int, int]:
        self._load_tables()
        places = [place for place, token in enumerate(tokens) if self._rows[token].kind in ("op", "input")]
        return {place: number for number, place in enumerate(places)}


class Steps(Sequence[Step]):
    """The steps of a recording; `steps[-1]`, slices and iteration work as in a list."""

    _COLUMNS = "id, graph, kind, started, ns, operations_ns, loss, grad_norm, saved_bytes, complete, reads"

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __len__(self) -> int:
        return int(self._recording._all("SELECT COUNT(*) FROM step")[0][0])

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        count = len(self)
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(count))]
        number = index + count if index < 0 else index
        rows = self._recording._all(f"SELECT {self._COLUMNS} FROM step WHERE id = ?", number)
        if not rows:
            raise NotFoundError(
                f"there is no step {index}: the recording has {count} step{'' if count == 1 else 's'}"
                + (f", 0 to {count - 1}" if count > 1 else "")
            )
        return _step(rows[0])

    def __iter__(self) -> Iterator[Step]:
        number = 0
        while rows := self._recording._all(
            f"SELECT {self._COLUMNS} FROM step WHERE id >= ? ORDER BY id LIMIT 1000", number
        ):
            for row in rows:
                yield _step(row)
            number = rows[-1][0] + 1

    def __repr__(self) -> str:
        return f"<{len(self)} steps>"


def broken(path: str | None, error: sqlite3.Error) -> RecordingError:
    where = path or "recording"
    text = str(error)
    if "locked" in text:
        return RecordingError(f"{where}: the file is locked by another program; try again when it is done")
    if "malformed" in text or "not a database" in text or "no such table" in text:
        return RecordingError(f"{where}: the file is damaged or cut short ({text})")
    return RecordingError(f"{where}: the file cannot be read ({text})")


def _numbers(blob: bytes) -> array[int]:
    numbers = array("I", zlib.decompress(blob))
    if numbers.itemsize != 4:
        raise RecordingError("this machine has no 32-bit integers in `array`")
    return numbers


def _step(row: Any) -> Step:
    *fields, loss, grad_norm, saved_bytes, complete, reads = row
    seen = () if reads is None else tuple(Read(*each) for each in json.loads(reads))
    return Step(*[*fields, floating(loss), floating(grad_norm), saved_bytes, bool(complete), seen])
