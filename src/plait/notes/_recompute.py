"""A checkpoint's recomputation did something else than the forward."""

from __future__ import annotations

from plait.graph import Graph, Node, Site
from plait.graph._notation import op_name, tensor
from plait.notes._words import at, code, failure, name, path_of, place, says
from plait.recording import Facts, Failure

CAUSE = "checkpoint-took-another-path"


def other_path(facts: Facts) -> Failure | None:
    """The first operation of the recomputation that is another than in the forward."""
    if facts.kind != "recompute" or not facts.graph.backwards:
        return None
    graph = facts.graph
    begin = graph.backwards[-1].after
    again = [node for node in graph.nodes[begin:] if node.in_backward and node.kind == "op"]
    before = [node for node in graph.nodes[:begin] if node.kind == "op"]
    first = next((node for node in again if graph.site_of(node) is not None), None)
    if first is None:
        return _generic(facts)
    start = _start(graph, before, again)
    if start is None:
        return _generic(facts)
    for old, new in zip(before[start:], again):
        if _what(graph, old) != _what(graph, new):
            return _other_op(facts, old, new)
        for one, other in zip(old.inputs, new.inputs):
            if graph.values[one.value].shape != graph.values[other.value].shape:
                return _other_size(facts, old, one.value, other.value)
    if len(again) < len(before) - start:  # the recomputation ended early: it did less
        return _other_op(facts, before[start + len(again)], None)
    return _generic(facts)


def _start(graph: Graph, before: list[Node], again: list[Node]) -> int | None:
    """Where the forward of the recomputed block begins: the place that agrees with it the longest."""
    best, where = 0, None
    for start in range(len(before)):
        if _what(graph, before[start]) != _what(graph, again[0]):
            continue
        same = 0
        for old, new in zip(before[start:], again):
            if _what(graph, old) != _what(graph, new):
                break
            same += 1
        if same > best:
            best, where = same, start
    return where


def _what(graph: Graph, node: Node) -> tuple[str, str, int, int | None]:
    site = graph.site_of(node)
    return (node.op, "", 0, None) if site is None else (node.op, site.file, site.line, site.column)


def _other_op(facts: Facts, old: Node, new: Node | None) -> Failure:
    graph = facts.graph
    site, now = graph.site_of(old), None if new is None else graph.site_of(new)
    decided = _test(site, now)
    instead = "it was left out" if new is None else f"{says(now, f'`{op_name(new.op)}`')}{at(now)} ran instead"
    because = f": the test at {decided} went the other way" if decided else ""
    return failure(
        facts, CAUSE,
        f"the forward ran {says(site, f'`{op_name(old.op)}`')}{at(site)}, and in the recomputation {instead}{because}.",
        "A checkpoint runs its block a second time in backward and needs the same operations on the same sizes.",
        "Let the block depend on its arguments only: hand it what decides as an argument, and change no state inside.",
        place(site, "forward"), place(now, "recomputed"), place(facts.site, "backward"),
    )  # fmt: skip


def _test(site: Site | None, now: Site | None) -> str:
    """The innermost test in whose arm one of the two stands and the other does not."""
    for one, other in ((site, now), (now, site)):
        if one is None:
            continue
        there = {(each.line, each.column, each.arm) for each in other.branches} if other is not None else set()
        for branch in reversed(one.branches):
            if (branch.line, branch.column, branch.arm) not in there:
                return f"{path_of(one.file)}:{branch.line}"
    return ""


def _other_size(facts: Facts, old: Node, one: int, other: int) -> Failure:
    graph = facts.graph
    site = graph.site_of(old)
    before, now = graph.values[one], graph.values[other]
    maker = graph.site_of(graph.nodes[before.node])
    return failure(
        facts, CAUSE,
        f"{name(graph, one)} was {code(tensor(before.dtype, before.shape))} in the forward and is"
        f" {code(tensor(now.dtype, now.shape))} in the recomputation{at(maker or site)}.",
        "A checkpoint runs its block a second time in backward; a list or cache that the block fills is filled twice.",
        "Let the block depend on its arguments only: fill caches outside of it.",
        place(maker or site, "forward"), place(site, "used"), place(facts.site, "backward"),
    )  # fmt: skip


def _generic(facts: Facts) -> Failure:
    return failure(
        facts, CAUSE, f"a checkpoint that `{facts.call}()`{at(facts.site)} recomputed did something else than before.",
        "It runs its block a second time in backward and needs the same operations on the same sizes.",
        "Let the block depend on its arguments only, and change no state inside.", place(facts.site, "backward"),
    )  # fmt: skip
