"""Recordings made by hand, row by row: for tests of everything that reads, without torch."""

from __future__ import annotations

import json
import sqlite3
import zlib
from array import array
from pathlib import Path
from typing import Any

from plait.graph import Graph, Scope, Site, build
from plait.graph._rows import (
    BackwardRow,
    EnterRow,
    EventRow,
    InputRow,
    ModeRow,
    OpRow,
    OutputRow,
    ParentRow,
    ReadRow,
    Reference,
    ReturnRow,
    Row,
    TensorType,
)
from plait.graph._source import SourceIndex
from plait.recording._schema import APPLICATION_ID, FORMAT, TABLES


class Tape:
    """Writes steps as a recorder would: tables that intern, and one list of row numbers a step."""

    def __init__(self, source: str = "", file: str = "/project/model.py") -> None:
        self.source = source
        self.file = file
        self.index = SourceIndex(source)
        self.types: list[TensorType] = []
        self.sites: list[Site] = []
        self.scopes: list[Scope] = []
        self.rows: list[Row] = []
        self.counts: list[list[int]] = []
        self.tokens: list[int] = []
        self.graphs: dict[tuple[int, ...], int] = {}
        self.steps: list[tuple[Any, ...]] = []
        self.samples: list[tuple[Any, ...]] = []
        self.notes: list[tuple[str, str]] = []
        self.meta = {"program": "model.py", "seconds": "1.5", "python": "3.11.15", "torch": "2.13.0", "status": "done"}
        self.programs: dict[int, str] = {}
        self.durations = True

    # -- tables -----------------------------------------------------------------------------------------------

    def type(self, *shape: int, dtype: str = "f32", grad: bool = False, leaf: bool = True) -> int:
        return self._intern(self.types, TensorType(dtype, shape, "cpu", grad, leaf))

    def _intern(self, table: list[Any], item: Any) -> int:
        numbers: dict[Any, int] = self.__dict__.setdefault(f"_numbers{id(table)}", {})
        number = numbers.setdefault(item, len(table))
        if number == len(table):
            table.append(item)
        return number

    def site(self, line: int, expression: str, function: str = "forward", opcode: str = "", jump: bool = False) -> int:
        known = self.__dict__.setdefault("_sites", {})
        asked = (line, expression, function, opcode, jump)
        if asked not in known:
            known[asked] = self._site(*asked)
        return int(known[asked])

    def _site(self, line: int, expression: str, function: str, opcode: str, jump: bool) -> int:
        text = self.source.splitlines()[line - 1]
        column = text.index(expression)
        end = column + len(expression)
        facts = self.index.facts(line, line, column, end, opcode)
        made = Site(0, self.file, line, line, column, end, line * 1000 + end + jump, function, *facts)
        for site in self.sites:
            if (site.line, site.column, site.offset, site.header) == (line, column, made.offset, made.header):
                return site.id
        self.sites.append(Site(len(self.sites), *[getattr(made, name) for name in Site.__slots__[1:]]))
        return len(self.sites) - 1

    def scope(self, path: str, module: str) -> int:
        for scope in self.scopes:
            if scope.path == path:
                return scope.id
        self.scopes.append(Scope(len(self.scopes), path, module))
        return len(self.scopes) - 1

    def row(self, row: Row, ns: int = 0) -> int:
        """Write a row down; its place in the step."""
        number = self._intern(self.rows, row)
        if number == len(self.counts):
            self.counts.append([0, 0])
        self.counts[number][0] += 1
        self.counts[number][1] += ns
        self.tokens.append(number)
        return len(self.tokens) - 1

    # -- what happens -----------------------------------------------------------------------------------------

    def input(self, what: str, kind: int, name: str | None = None, site: int | None = None) -> Reference:
        self.row(InputRow(what, kind, name, site))  # type: ignore[arg-type]
        inputs = sum(isinstance(self.rows[token], InputRow) for token in self.tokens)
        return (-inputs, 0)

    def to(self, place: int, output: int = 0) -> Reference:
        """A reference from the next row to the row at `place`."""
        return (len(self.tokens) - place, output)

    def op(
        self, name: str, *arguments: Reference, out: int | tuple[int, ...] = (), site: int | None = None,
        ns: int = 1000, backward: tuple[tuple[str, tuple[ParentRow | None, ...]], ...] = (),
        saved: tuple[tuple[str, str, int, int], ...] = (), cut: str | None = None, scope: int | None = None,
        writes: tuple[int, ...] = (), constants: str = "", bases: tuple[int | None, ...] | None = None,
        in_backward: bool = False,
    ) -> int:  # fmt: skip
        kinds = (out,) if isinstance(out, int) else out
        outputs = tuple(
            OutputRow(
                kind,
                0 if backward and k == 0 else None,
                None if bases is None or k < len(writes) else bases[k],
                writes[k] if k < len(writes) else None,
                0,
            )
            for k, kind in enumerate(kinds)
        )
        positions = tuple(str(k) for k in range(len(arguments)))
        return self.row(
            OpRow(name, site, scope, True, in_backward, arguments, positions, constants, outputs, writes, cut, saved,
                  backward), ns,
        )  # fmt: skip

    def read(
        self, value: Reference, site: int | None = None, how: str = "bool", outcome: bool | None = None,
        comparison: str | None = None, number: Any = None, left: float | None = None, right: float | None = None,
    ) -> int:  # fmt: skip
        self.reads.append([outcome if number is None else number, left, right])
        return self.row(ReadRow(how, site, value, outcome, comparison))

    @property
    def reads(self) -> list[list[Any]]:
        return self.__dict__.setdefault("_reads", [])

    def enter(self, function: str, site: int | None = None, line: int = 1) -> int:
        return self.row(EnterRow(function, site, line))

    def leave(self, levels: int = 1) -> int:
        return self.row(ReturnRow(levels))

    def mode(self, mode: str, enabled: bool, site: int | None = None) -> int:
        return self.row(ModeRow(mode, enabled, site))

    def backward(self, root: Reference, site: int | None = None, retain: bool = False) -> int:
        return self.row(BackwardRow("backward", site, (root,), (), retain, False))

    def event(self, what: str, detail: str = "", site: int | None = None) -> int:
        return self.row(EventRow(what, detail, site, ()))

    def sample(self, place: int, elements: Any, what: str = "value", output: int = 0) -> None:
        self.samples.append((len(self.graphs), place, output, what, json.dumps(elements)))

    # -- steps ------------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph of the step under way."""
        return build(self.tokens, self.rows, self.types, dict(enumerate(self.sites)), dict(enumerate(self.scopes)))

    def end_step(
        self, kind: str = "train", loss: float | None = None, ns: int = 1_000_000, complete: bool = True,
        program: str = "p", keep: bool = True,
    ) -> int:  # fmt: skip
        """End the step; its graph."""
        tokens = tuple(self.tokens)
        graph: int | None = None
        if keep:
            new = len(self.graphs)
            graph = self.graphs.setdefault(tokens, new)
            self.programs.setdefault(graph, program)
        reads = json.dumps(self.reads) if self.reads else None
        number = len(self.steps)
        self.steps.append((number, graph, kind, number * 0.002, ns, ns // 2, loss, None, 0, int(complete), reads))
        self.tokens, self.__dict__["_reads"] = [], []
        return -1 if graph is None else graph

    def write(self, path: Path) -> Path:
        """Write the recording."""
        connection = sqlite3.connect(path)
        connection.executescript(TABLES)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        fill = connection.executemany
        fill("INSERT INTO meta VALUES (?, ?)", self.meta.items())
        fill("INSERT INTO source VALUES (?, ?)", [(self.file, zlib.compress(self.source.encode()))])
        fill(
            "INSERT INTO site VALUES (?, ?)",
            [
                (s.id, json.dumps([getattr(s, name) for name in Site.__slots__[1:]], default=_fields))
                for s in self.sites
            ],
        )
        fill("INSERT INTO scope VALUES (?, ?)", [(s.id, json.dumps([s.path, s.module])) for s in self.scopes])
        fill("INSERT INTO type VALUES (?, ?)", [(n, json.dumps(list(t))) for n, t in enumerate(self.types)])
        fill(
            "INSERT INTO row VALUES (?, ?, ?, ?, ?)",
            [(n, row.kind, json.dumps(list(row)[:-1]), *self.counts[n]) for n, row in enumerate(self.rows)],
        )
        for tokens, number in self.graphs.items():
            rows = [self.rows[token] for token in tokens]
            ops = [row for row in rows if isinstance(row, OpRow)]
            nodes = len(ops) + sum(isinstance(row, InputRow) for row in rows)
            reads = sum(isinstance(row, ReadRow) for row in rows)
            saved = sum(nbytes for row in ops for *_, nbytes in row.saved)
            times = zlib.compress(array("I", [1000] * len(tokens)).tobytes()) if self.durations else None
            connection.execute(
                "INSERT INTO graph VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, zlib.compress(array("I", tokens).tobytes()), f"s{number}", f"t{number}",
                 self.programs[number], nodes, len(ops), reads, saved, times),
            )  # fmt: skip
        fill("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.steps)
        fill("INSERT INTO sample VALUES (?, ?, ?, ?, ?)", self.samples)
        fill("INSERT INTO note (kind, text) VALUES (?, ?)", self.notes)
        connection.commit()
        connection.close()
        return path


def _fields(item: Any) -> list[Any]:
    return [getattr(item, name) for name in type(item).__slots__]


# -- programs of the tests --------------------------------------------------------------------------------------

PRODUCT = """\
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
z = x * y
loss = z.sum()
loss.backward()
"""


def product() -> Tape:
    """z = x * y; loss = z.sum(); loss.backward()."""
    tape = Tape(PRODUCT)
    vector, made, scalar = (
        tape.type(3, grad=True),
        tape.type(3, grad=True, leaf=False),
        tape.type(grad=True, leaf=False),
    )
    tape.enter("<module>")
    x = tape.input("leaf", vector, "x", tape.site(3, "torch.tensor([1.0, 2.0, 3.0], requires_grad=True)", "<module>"))
    tape.sample(1, [1.0, 2.0, 3.0])
    y = tape.input("leaf", vector, "y", tape.site(4, "torch.tensor([4.0, 5.0, 6.0], requires_grad=True)", "<module>"))
    tape.sample(2, [4.0, 5.0, 6.0])
    z = tape.op(
        "__mul__", x, y, out=made, site=tape.site(5, "x * y", "<module>"),
        backward=(("MulBackward0", (ParentRow("leaf", *x, 0), ParentRow("leaf", *y, 0))),),
        saved=(("self", "argument", 0, 12), ("other", "argument", 1, 12)),
    )  # fmt: skip
    loss = tape.op(
        "sum", tape.to(z), out=scalar, site=tape.site(6, "z.sum()", "<module>"),
        backward=(("SumBackward0", (ParentRow("node", 1, 0, 0),)),),
    )  # fmt: skip
    tape.backward(tape.to(loss), tape.site(7, "loss.backward()", "<module>"))
    for place, gradient in ((loss, 1.0), (z, [1.0] * 3), (2, [1.0, 2.0, 3.0]), (1, [4.0, 5.0, 6.0])):
        tape.sample(place, gradient, "gradient")
    tape.end_step(loss=32.0)
    return tape


LOOP = """\
def forward(xs):
    h = xs[0]
    for x in xs:
        h = h + x
        if h.mean() > 0:
            h = torch.relu(h)
        else:
            h = torch.tanh(h)
    return h.detach()


def main(data):
    for xs in data:
        loss = forward(xs).sum()
        loss.backward()
"""


def loop(rounds: list[list[bool]]) -> Tape:
    """A step for every list: a loop with a decision in each round; the step is one round of the loop in `main`."""
    tape = Tape(LOOP)
    for outcomes in rounds:
        loop_step(tape, outcomes)
    return tape


def loop_step(tape: Tape, outcomes: list[bool], width: int = 5) -> None:
    data, made = tape.type(len(outcomes), width), tape.type(width, leaf=False)
    scalar, flag = tape.type(leaf=False), tape.type(dtype="bool", leaf=False)
    tape.enter("main", None, 12)
    xs = tape.input("data", data, "xs")
    tape.enter("forward", tape.site(14, "forward(xs)", "main"), 1)
    h = tape.op("__getitem__", xs, out=made, site=tape.site(2, "xs[0]"), bases=(0,))
    for k, outcome in enumerate(outcomes):
        x = tape.op("unbind", xs, out=made, site=tape.site(3, "xs", opcode="FOR_ITER"), bases=(0,))
        h = tape.op("__add__", tape.to(h), tape.to(x), out=made, site=tape.site(4, "h + x"), ns=2000)
        mean = tape.op("mean", tape.to(h), out=scalar, site=tape.site(5, "h.mean()"))
        test = tape.op("__gt__", tape.to(mean), out=flag, site=tape.site(5, "h.mean() > 0"))
        side = 0.5 / (k + 1) if outcome else -0.25
        tape.read(tape.to(test), tape.site(5, "h.mean() > 0", jump=True), "bool", outcome, ">", left=side, right=0.0)
        if outcome:
            h = tape.op(
                "relu", tape.to(h), out=made, site=tape.site(6, "torch.relu(h)"), saved=(("result", "output", 0, 20),)
            )
        else:
            h = tape.op(
                "tanh", tape.to(h), out=made, site=tape.site(8, "torch.tanh(h)"), saved=(("result", "output", 0, 20),)
            )
    cut = tape.op("detach", tape.to(h), out=made, site=tape.site(9, "h.detach()"), cut="detach", bases=(0,))
    tape.leave()
    loss = tape.op("sum", tape.to(cut), out=scalar, site=tape.site(14, "forward(xs).sum()", "main"))
    tape.backward(tape.to(loss), tape.site(15, "loss.backward()", "main"))
    tape.end_step(loss=float(len(outcomes)))
