"""A step as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from plait._errors import NotFoundError
from plait.graph._model import Graph
from plait.graph._notation import op_name, value_type
from plait.recording import Recording, Step

_STEPS = 20_000  # steps that are drawn on their own track


def perfetto(recording: Recording, step: Step) -> str:
    """All steps on one track, and the operations of `step` on another, inside their functions and loops.

    The recording keeps how long an operation took, not when it began: they stand one behind the other.
    """
    if step.graph is None:
        raise NotFoundError(f"step {step.id} kept no graph: the limit of distinct graphs had been reached")
    graph = recording.graph_number(step.graph)
    times = recording.durations(step.graph)
    if times is None:
        raise NotFoundError(f"the times of single operations were not kept for step {step.id}; choose another step")
    start = step.started * 1e6
    events: list[dict[str, Any]] = [
        _name("process_name", 0, "plait"),
        _name("thread_name", 1, "steps"),
        _name("thread_name", 2, f"operations of step {step.id}, one behind the other"),
    ]
    for each in islice(recording.steps, _STEPS):
        detail = {"graph": each.graph, "loss": each.loss}
        events.append(_slice(f"step {each.id}", each.kind, 1, each.started * 1e6, each.ns / 1e3, detail))
    events += _operations(graph, times, start)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def _operations(graph: Graph, times: tuple[int, ...], start: float) -> list[dict[str, Any]]:
    begins: dict[int, float] = {}  # region -> where its first operation stands
    ends: dict[int, float] = {}
    events = []
    now = start
    for node in graph.nodes:
        if node.kind != "op":
            continue
        length = times[node.id] / 1e3
        site = graph.site_of(node)
        detail = {
            "node": node.id,
            "values": [value_type(graph.values[each]) for each in node.outputs],
            "where": str(site) if site is not None else None,
            "expression": site.expression if site is not None else None,
            "saved bytes": node.saved_bytes,
        }
        events.append(_slice(op_name(node.op), "op", 2, now, length, detail))
        region = node.region
        while region is not None:
            begins.setdefault(region, now)
            ends[region] = now + length
            region = graph.regions[region].parent
        now += length
    groups = []
    for number in sorted(begins):
        region_ = graph.regions[number]
        name = f"round {region_.index}" if region_.kind == "iteration" else region_.label
        groups.append(
            _slice(name, region_.kind, 2, begins[number], ends[number] - begins[number], {"line": region_.line})
        )
    return groups + events


def _slice(name: str, kind: str, track: int, start: float, length: float, detail: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "cat": kind, "ph": "X", "pid": 1, "tid": track, "ts": round(start, 3),
            "dur": round(length, 3), "args": detail}  # fmt: skip


def _name(what: str, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
