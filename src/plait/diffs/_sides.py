"""What can be compared: a file, a file's step, a recording, a step of it, a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from plait._errors import PlaitError
from plait.graph import Graph
from plait.recording import Read, Recording, Step, load

Comparable: TypeAlias = "str | os.PathLike[str] | Recording | Graph | tuple[Recording, Step | int]"


@dataclass(frozen=True)
class Side:
    """One of the two things that are compared. `graph` is None for a whole run."""

    label: str
    graph: Graph | None
    reads: tuple[Read, ...] = ()
    step: int | None = None
    recording: Recording | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

    def at(self, step: Step) -> Side:
        """One step of this run."""
        assert self.recording is not None
        graph = None if step.graph is None else self.recording.graph_number(step.graph)
        return Side(
            f"{self.label}@{step.id}", graph, step.reads, step.id, self.recording, self.sources, step.complete
        )  # fmt: skip

    def read(self, decision: int) -> Read | None:
        """What a decision saw."""
        return self.reads[decision] if decision < len(self.reads) else None


def side(given: Comparable, label: str = "") -> Side:
    """What was given, ready to be compared.

    Raises:
        PlaitError: it is nothing that can be compared, or the step is not there.
    """
    if isinstance(given, Graph):
        return Side(label or "graph", given)
    if isinstance(given, Recording):
        return Side(label or _name(given), None, recording=given, sources=given.sources)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Recording):
        whole = side(given[0], label)
        step = given[1] if isinstance(given[1], Step) else given[0].steps[given[1]]
        return _with_graph(whole.at(step))
    if isinstance(given, (str, os.PathLike)):
        return _of_file(os.fspath(given))
    raise PlaitError(
        f"diff() of {type(given).__name__}: give a recording, the path of one, a graph, or (recording, step)"
    )


def _of_file(text: str) -> Side:
    path, at, number = text.rpartition("@")
    if at and not Path(text).exists():
        try:
            step = int(number)
        except ValueError:
            raise PlaitError(f"{text}: what follows the @ must be the number of a step (FILE@3, FILE@-1)") from None
        recording = load(path)
        whole = Side(path, None, recording=recording, sources=recording.sources)
        found = whole.at(recording.steps[step])
        return _with_graph(Side(text, found.graph, found.reads, found.step, recording, whole.sources, found.complete))
    recording = load(text)
    return Side(text, None, recording=recording, sources=recording.sources)


def _with_graph(found: Side) -> Side:
    if found.graph is None:
        raise PlaitError(f"{found.label}: this step kept no graph: the limit of distinct graphs had been reached")
    return found


def _name(recording: Recording) -> str:
    return recording.path or "recording"
