"""Writer: puts a run into a file, in batches, so that a killed program leaves everything up to the last second.

Nothing here may make the program fail: when the disk is full the recording stops with one sentence.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import threading
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from plait._errors import RecordingError, say
from plait.recording._floats import stored
from plait.recording._schema import APPLICATION_ID, FORMAT, TABLES

MOST_WAITING: Final = 50_000  # steps that wait while somebody else holds the file


P = ParamSpec("P")
R = TypeVar("R")


class NewGraph(NamedTuple):
    """A distinct graph, as it goes into the file."""

    id: int
    tokens: array[int]
    shapes: str
    structure: str
    program: str
    nodes: int
    operations: int
    decisions: int
    saved_bytes: int
    durations: array[int] | None


def _locked(method: Callable[Concatenate[Writer, P], R]) -> Callable[Concatenate[Writer, P], R]:
    """One thread at a time: the watcher of a distributed run writes while the program is stuck."""

    @functools.wraps(method)
    def alone(self: Writer, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return alone


class Writer:
    """Collects and writes. `path` None keeps the recording in memory.

    Raises:
        RecordingError: the file exists and must not be overwritten, or cannot be made.
    """

    def __init__(self, path: Path | None, overwrite: bool = False) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.stopped: str | None = None
        self._pending: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._graphs: list[tuple[Any, ...]] = []
        self._steps: list[tuple[Any, ...]] = []
        self._open_step = False
        self.connection = self._make(path, overwrite)

    def _make(self, path: Path | None, overwrite: bool) -> sqlite3.Connection:
        try:
            if path is not None:
                if path.is_dir():
                    raise RecordingError(f"{path}: this is a folder; name a file to record into")
                if not path.parent.is_dir():
                    raise RecordingError(f"{path}: there is no folder {path.parent} to record into")
                if path.exists():
                    if not overwrite:
                        raise RecordingError(f"{path}: the file exists; use another name, or -f to overwrite it")
                    path.unlink()
                path.with_name(path.name + "-journal").unlink(missing_ok=True)
            connection = sqlite3.connect(
                ":memory:" if path is None else str(path), check_same_thread=False, isolation_level=None, timeout=1.0
            )
            # A crash of the machine may lose the file; a crash of the program never does.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            connection.executescript(TABLES)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise RecordingError(f"{path}: cannot record into this file ({reason})") from None
        return connection

    # -- collecting ---------------------------------------------------------------------------------------------

    @_locked
    def add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows for a table, written with the next batch."""
        if rows and self.stopped is None:
            self._pending.append(
                (
                    f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(rows[0]))})",
                    [tuple(map(stored, row)) for row in rows],
                )
            )

    @_locked
    def add_graph(self, graph: NewGraph) -> None:
        """A distinct graph."""
        if self.stopped is None:
            self._graphs.append(_graph_row(graph))

    @_locked
    def add_step(self, step: tuple[Any, ...], reads: Sequence[tuple[Any, Any, Any]]) -> None:
        """A step: the columns of the table without `reads`."""
        if self.stopped is None:
            self._steps.append((*map(stored, step), tuple(reads)))

    @_locked
    def update_rows(self, counts: Iterable[tuple[int, int, int]]) -> None:
        """(calls, nanoseconds, row) so far."""
        if self.stopped is None:
            self._pending.append(("UPDATE row SET count = ?, ns = ? WHERE id = ?", list(counts)))

    def add_source(self, file: str, text: str) -> None:
        """A source file of the program."""
        self.add("source", [(file, zlib.compress(text.encode()))])

    def set_meta(self, **facts: object) -> None:
        """Facts about the run."""
        self.add("meta", [(key, str(value)) for key, value in facts.items()])

    @property
    def waiting(self) -> int:
        """Steps that are not written yet."""
        return len(self._steps)

    # -- writing ------------------------------------------------------------------------------------------------

    @_locked
    def flush(
        self,
        open_graph: NewGraph | None = None,
        open_step: tuple[Any, ...] | None = None,
        open_reads: Sequence[tuple[Any, Any, Any]] = (),
    ) -> None:
        """Write everything that waits in one transaction; with it the step that is under way, if given."""
        if self.stopped is not None:
            return
        run = self.connection
        replaces = self._open_step
        try:
            run.execute("BEGIN IMMEDIATE")
            if replaces:
                run.execute("DELETE FROM graph WHERE id = (SELECT graph FROM step WHERE complete = 0)")
                run.execute("DELETE FROM step WHERE complete = 0")
                self._open_step = False
            for statement, rows in self._pending:
                run.executemany(statement, rows)
            run.executemany(f"INSERT OR REPLACE INTO graph VALUES ({','.join('?' * 10)})", self._graphs)
            steps = [(*step, reads_text(reads)) for *step, reads in self._steps]
            run.executemany(f"INSERT OR REPLACE INTO step VALUES ({','.join('?' * 11)})", steps)
            if open_graph is not None and open_step is not None:
                run.execute(f"INSERT INTO graph VALUES ({','.join('?' * 10)})", _graph_row(open_graph))
                run.execute(
                    f"INSERT INTO step VALUES ({','.join('?' * 11)})", (*map(stored, open_step), reads_text(open_reads))
                )
                self._open_step = True
            run.execute("COMMIT")
        except BaseException as error:
            if run.in_transaction:  # SQLite may have rolled back by itself
                with contextlib.suppress(sqlite3.Error):
                    run.execute("ROLLBACK")
                self._open_step = replaces
            if not isinstance(error, sqlite3.Error):  # Ctrl-C: all that waits is written the next time
                raise
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or self.waiting > MOST_WAITING:
                self._stop(error)
            return
        self._forget()

    @_locked
    def finish(self) -> None:
        """Write what still waits because somebody held the file."""
        if self.stopped is None and (self._pending or self._graphs or self._steps):
            self.connection.execute("PRAGMA busy_timeout = 10000")
            self.flush()
            if self._pending and self.stopped is None:
                self._stop(sqlite3.OperationalError("it is locked by another program"))

    def _stop(self, error: sqlite3.Error) -> None:
        where = self.path or "the recording in memory"
        self.stopped = f"plait: recording stopped: {where} cannot be written ({error}); the program goes on."
        self._forget()
        say(self.stopped)

    def _forget(self) -> None:
        self._pending.clear()
        self._graphs.clear()
        self._steps.clear()

    def save_as(self, path: Path, overwrite: bool = False) -> None:
        """Copy the recording into a file."""
        target = Writer(path, overwrite)
        try:
            self.connection.backup(target.connection)
        except sqlite3.Error as error:
            raise RecordingError(f"{path}: cannot write the recording there ({error})") from None
        finally:
            target.connection.close()

    def abandon(self) -> None:
        """In a forked child: the file belongs to the parent, so only forget what waits."""
        self.stopped = f"forked into process {os.getpid()}"
        self._forget()


# One encoder for all: `json.dumps` would make one a call. It writes NaN and Infinity as words that Python also reads.
_encode = json.JSONEncoder(separators=(",", ":")).encode


def reads_text(reads: Sequence[tuple[Any, Any, Any]]) -> str | None:
    """Reads as the table keeps them: None when there are none."""
    if not reads:
        return None
    return _encode([_shortened(each) for each in reads])


def _shortened(read: tuple[Any, Any, Any]) -> list[Any]:
    value, left, right = read
    if left is None and right is None:
        return [_rounded(value)]
    return [_rounded(value), _exact(left), _exact(right)]


def _exact(value: Any) -> Any:
    """A side of a comparison, with the digits that tell two neighbouring 32-bit numbers apart."""
    return float(f"{value:.9g}") if type(value) is float else value


def _rounded(value: Any) -> Any:
    return float(f"{value:.7g}") if type(value) is float else value


def packed(numbers: array[int]) -> bytes:
    """32-bit numbers as the file keeps them."""
    return zlib.compress(numbers.tobytes(), 1 if len(numbers) > 4096 else 6)


def _graph_row(graph: NewGraph) -> tuple[Any, ...]:
    durations = None if graph.durations is None else packed(graph.durations)
    return (graph.id, packed(graph.tokens), *graph[2:9], durations)
