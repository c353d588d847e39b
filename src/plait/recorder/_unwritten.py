"""What of the tape's tables is not in the file yet."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from plait.recorder._tape import Tape
from plait.recording._writer import Writer


class Unwritten:
    """Hands the writer the types, sites, scopes, rows and leaves that are new, and the counts that have changed."""

    def __init__(self, tape: Tape, writer: Writer) -> None:
        self._tape = tape
        self._writer = writer
        self._written = (0, 0, 0, 0)
        self._counts: list[int] = []

    def write(self) -> None:
        """Hand over what is new since the last call."""
        tape, writer = self._tape, self._writer
        types, sites, scopes, rows = self._written
        writer.add("type", [(n, to_json(tape.types[n])) for n in range(types, len(tape.types))])
        writer.add("site", [(n, to_json(tape.sites.bodies[n])) for n in range(sites, len(tape.sites.bodies))])
        writer.add("scope", [(n, to_json(tape.scopes.bodies[n])) for n in range(scopes, len(tape.scopes.bodies))])
        writer.add(
            "row",
            [
                (n, tape.rows[n].row.kind, to_json(tape.rows[n].row[:-1]), 0, 0) for n in range(rows, len(tape.rows))
            ],
        )  # fmt: skip
        writer.add("leaf", [tuple(each) for each in tape.leaves.changes()])
        self._written = len(tape.types), len(tape.sites.bodies), len(tape.scopes.bodies), len(tape.rows)
        self._counts += [0] * (len(tape.counts) - len(self._counts))
        changed = [each for each in tape.counts if each[2] != self._counts[each[0]]]
        for each in changed:
            self._counts[each[0]] = each[2]
        writer.update_rows([(each[2], each[1], each[0]) for each in changed])
        for file in list(tape.sites.sources):
            writer.add_source(file, tape.sites.sources.pop(file))


def to_json(content: Any) -> str:
    """The content as JSON without spaces; tuples and dataclasses become lists."""
    return json.dumps(content, separators=(",", ":"), default=astuple)
