"""A tensor that backward needs was written in place after it was saved, by a line or by an optimizer."""

from __future__ import annotations

from plait.graph import Event, Node, Site
from plait.graph._notation import op_name
from plait.notes._words import (
    Key,
    at,
    events,
    failure,
    made,
    name,
    place,
    says,
    shared_loop,
    storage,
    through_data,
    writes,
)
from plait.recording import Broken, Facts, Failure


def on_saved(facts: Facts) -> Failure | None:
    """The write that broke the first saved tensor on the way of the backward pass."""
    for broken in facts.broken:
        if not broken.freed:
            return _explain(facts, broken)
    return None


def _explain(facts: Facts, broken: Broken) -> Failure | None:
    graph = facts.windows[broken.window].graph
    saver = graph.nodes[graph.backward_nodes[broken.node].node]
    value = _saved_value(facts, broken, saver)
    if value is None:
        return _unnamed(facts, graph.site_of(saver), saver)
    key = storage(facts.windows, broken.window, value)
    written = [
        (window, node, target)
        for window, node, target in writes(facts.windows, broken.window, saver.id)
        if storage(facts.windows, window, target) == key and not through_data(facts.windows[window].graph, target)
    ]
    what, site = name(graph, value), graph.site_of(saver)
    if written:
        return _by_line(facts, broken, saver, value, written)
    step = _optimizer(facts, broken.window, saver, value, key)
    if step is None:
        return _unnamed(facts, site, saver)
    window, event = step
    where = facts.windows[window].graph.site_of(event)
    return failure(
        facts, "optimizer-step-before-backward",
        f"{says(where, 'an optimizer step')} changed {what} in place, and the graph that {says(site, '')} built"
        f"{at(site)} before still needs the old value.",
        f"`{facts.call}()`{at(facts.site)} would mix old activations with new weights, so autograd refuses.",
        f"Run both backward passes before the first step, or run the forward at {_line(site)} again after the step.",
        place(where, "written"), place(site, "saved"), place(facts.site, "backward"),
    )  # fmt: skip


def _by_line(facts: Facts, broken: Broken, saver: Node, value: int, written: list[tuple[int, Node, int]]) -> Failure:
    graph = facts.windows[broken.window].graph
    window, writer, _ = written[0]
    where = facts.windows[window].graph.site_of(writer)
    site, origin = graph.site_of(saver), made(graph, value)
    what = name(graph, value)
    in_loop = shared_loop(site, where)
    result = graph.values[value].node == saver.id
    saves = f"{says(site, f'`{op_name(saver.op)}`')}{at(site)}"
    if result:
        fact = f"backward needs {what}, the result of {saves}, and {says(where, 'a write')}{at(where)} wrote over it."
    else:
        birth = at(origin).replace(" at ", ", made at ", 1)
        fact = (
            f"{what}{birth}{',' if birth else ''} is saved for the backward of {saves}, and"
            f" {says(where, 'a write')}{at(where)} wrote to its memory after that."
        )
    more = len(written) - 1
    if more:
        fact = f"{fact[:-1]} ({more} more write{'' if more == 1 else 's'} followed)."
    if in_loop:
        cure = (
            "Collect the steps in a list and `torch.stack` them after the loop: each step then has memory of its own."
            if graph.values[value].base is not None or writer.op == "__setitem__"
            else f"Make a new tensor in each round instead of writing into the one before (line {_line(where)})."
        )
    else:
        cure = (
            f"Write into a copy (`.clone()` before {_line(where)}), or make a new tensor there ({_instead(writer.op)})."
        )
    return failure(
        facts, "inplace-on-saved-tensor", fact,
        f"The gradient formula of `{op_name(saver.op)}` would use the new numbers, so `{facts.call}()`{at(facts.site)}"
        " refuses.",
        cure, place(where, "written"), place(site, "saved"), place(origin, "made"), place(facts.site, "backward"),
    )  # fmt: skip


def _saved_value(facts: Facts, broken: Broken, saver: Node) -> int | None:
    """Which value was saved: by its name, else by its memory."""
    named = [each.value for each in saver.saved if each.name == broken.name and each.value is not None]
    if len(named) == 1:
        return named[0]
    graph = facts.windows[broken.window].graph
    for value in (*named, *(edge.value for edge in saver.inputs), *saver.outputs):
        key = storage(facts.windows, broken.window, value)
        if any(storage(facts.windows, w, target) == key for w, _, target in
               writes(facts.windows, broken.window, saver.id)):  # fmt: skip
            return value
    shaped = [edge.value for edge in saver.inputs if graph.values[edge.value].shape == broken.shape]
    return shaped[0] if len(shaped) == 1 else None


def _optimizer(facts: Facts, window: int, saver: Node, value: int, key: Key) -> tuple[int, Event] | None:
    steps = list(events(facts.windows, window, saver.id, "optimizer"))
    for index, event in steps:
        if any(storage(facts.windows, index, each) == key for each in event.values):
            return index, event
    graph = facts.windows[window].graph
    if steps and graph.values[value].leaf:
        return steps[0]
    return None


def _unnamed(facts: Facts, site: Site | None, saver: Node) -> Failure:
    return failure(
        facts, "inplace-on-saved-tensor",
        f"a tensor that is saved for the backward of {says(site, f'`{op_name(saver.op)}`')}{at(site)} was written in"
        " place after that, by a call that the recording did not see.",
        f"`{facts.call}()`{at(facts.site)} would use the new numbers, so autograd refuses.",
        "Look for writes to its memory from NumPy, another thread or a custom extension; write into a copy there.",
        place(site, "saved"), place(facts.site, "backward"),
    )  # fmt: skip


def _instead(op: str) -> str:
    plain = op_name(op).rstrip("_")
    if plain in ("setitem", "copy", "fill"):
        return "`torch.where`, `torch.stack`"
    return f"`{plain}` instead of `{plain}_`"


def _line(site: Site | None) -> str:
    return "there" if site is None else at(site).removeprefix(" at ")
