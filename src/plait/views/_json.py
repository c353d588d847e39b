"""The documents of `plait show --json` and `plait export --to json`, named and versioned.

A document changes its `version` when a field is renamed, removed or means something else; new fields may come at any
time.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from plait.decisions import Place, Program, Survey
from plait.graph._model import Graph
from plait.graph._site import Site
from plait.recording import Step
from plait.views._lines import lines_of

SHOW_VERSION = 1
GRAPH_VERSION = 1


def show_document(survey: Survey, places: Sequence[Place], programs: Sequence[Program]) -> str:
    """Everything that `plait show` prints, as one JSON document."""
    lines = lines_of(survey, places)
    document = {
        "format": "plait.show",
        "version": SHOW_VERSION,
        "meta": survey.recording.meta,
        "notes": [{"kind": kind, "text": text} for kind, text in survey.recording.notes],
        "steps": _steps(survey),
        "programs": [_plain(program) for program in programs],
        "decisions": [_plain(place) | {"predicate": place.predicate} for place in places],
        "loops": [_plain(loop) for loop in survey.loops],
        "source": {
            file: {
                str(number): {
                    "runs": line.runs, "ops": line.ops, "ns": line.ns, "saved_bytes": line.saved,
                    "marks": [{"kind": mark.kind, "text": mark.text} for mark in line.marks],
                }
                for number, line in sorted(by_line.items())
            }
            for file, by_line in sorted(lines.by_file.items())
        },
    }  # fmt: skip
    return _dump(document)


def _steps(survey: Survey) -> dict[str, Any]:
    kinds: dict[str, dict[str, int]] = {}
    for group in survey.groups:
        sums = kinds.setdefault(group.kind, {"steps": 0, "ns": 0, "operations_ns": 0, "incomplete": 0, "not_kept": 0})
        for name in ("steps", "ns", "operations_ns", "incomplete"):
            sums[name] += getattr(group, name) or 0
        sums["not_kept"] += group.steps if group.graph is None else 0
    return kinds


def graph_document(graph: Graph, step: Step | None = None) -> str:
    """One graph as a JSON document: its tables as in `plait.graph`, ids are positions."""
    tables = (
        "nodes", "values", "backward_nodes", "decisions", "backwards", "modes", "events", "regions", "scopes", "sites",
    )  # fmt: skip
    document: dict[str, Any] = {"format": "plait.graph", "version": GRAPH_VERSION}
    document["step"] = None if step is None else _plain(step)
    document |= {name: [_plain(item) for item in getattr(graph, name)] for name in tables}
    return _dump(document)


def _plain(item: Any) -> Any:
    """Dataclasses and named tuples as dictionaries; a site as its place; no NaN, which JSON does not know."""
    if isinstance(item, Site):
        return {"file": item.file, "line": item.line, "column": item.column, "expression": item.expression,
                "function": item.function, "id": item.id}  # fmt: skip
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: _plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        return {name: _plain(value) for name, value in item._asdict().items()}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    if isinstance(item, dict):
        return {str(key): _plain(value) for key, value in item.items()}
    if isinstance(item, float) and not math.isfinite(item):
        return str(item)
    return item


def _dump(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
