"""DistributedDataParallel refuses to go on: parameters that the last step did not reach."""

from __future__ import annotations

from plait.graph import Graph, Site
from plait.graph._walk import ancestors, reached_leaves
from plait.notes._words import at, code, failure, place
from plait.recording import Facts, Failure


def unused(facts: Facts) -> Failure | None:
    """Which parameters got no gradient in the last step with a backward pass, and which decision left them out."""
    if facts.kind != "module" or not facts.parameters:
        return None
    for window in reversed(facts.windows):
        if window.graph.backwards:
            return _explain(facts, window.graph)
    return None


def changed(facts: Facts) -> Failure | None:
    """A backward pass under the wrapper failed, and its graph reaches other parameters than the one before."""
    if facts.kind != "backward" or "distributed" not in facts.flags:
        return None
    calls = _calls(facts.graph)
    if len(calls) > 1 and any(each != calls[0] for each in calls):
        union = set.union(*calls)
        names = [name for name in sorted(union) if any(name not in each for each in calls)]
        site, why = decided(facts.graph)
        return failure(
            facts, "parameter-without-gradient",
            f"the model was called {len(calls)} times before one backward pass, and {listed(names)} took part in some"
            f" of the calls only{why}.",
            "The wrapper marks what a call leaves out as done; the gradient of another call then comes a second time.",
            "Hand all inputs to one call of the wrapped model, or call backward() after each.",
            place(site, "decision"), place(facts.site, "backward"), category="suspicious",
        )  # fmt: skip
    now = reached(facts.graph)
    for window in reversed(facts.windows[:-1]):
        before = reached(window.graph)
        if not before:
            continue
        left, come = sorted(before - now), sorted(now - before)
        if not left and not come:
            return None
        site, why = decided(facts.graph)
        parts = [f"{listed(come)} only now"] if come else []
        parts += [f"{listed(left)} only before"] if left else []
        return failure(
            facts, "parameter-without-gradient",
            f"this backward pass reaches other parameters than the last: {' and '.join(parts)}{why}.",
            "DistributedDataParallel was told, or has learned, that every step reaches the same parameters.",
            "Drop `static_graph=True` and use `find_unused_parameters=True`, or let every parameter take part in each"
            " step.",
            place(site, "decision"), place(facts.site, "backward"), category="suspicious",
        )  # fmt: skip
    return None


def _calls(graph: Graph) -> list[set[str]]:
    """The names of the parameters that each call of the wrapped model used."""
    sinks = [node for node in graph.nodes if node.op == "_DDPSink"]
    found = []
    for sink in sinks:
        names = set()
        for node in ancestors(graph, sink):
            name = graph.values[node.outputs[0]].name if node.outputs else None
            if name is not None and graph.values[node.outputs[0]].leaf and graph.values[node.outputs[0]].requires_grad:
                names.add(name.removeprefix("module."))
        found.append(names)
    return found


def _explain(facts: Facts, graph: Graph) -> Failure | None:
    used = reached(graph)
    missing = [name for name in facts.parameters if name not in used]
    if not missing or len(missing) == len(facts.parameters):
        return None
    site, why = decided(graph)
    return failure(
        facts, "parameter-without-gradient",
        f"the last backward pass did not reach {listed(missing)} ({len(missing)} of {len(facts.parameters)}){why}.",
        "DistributedDataParallel waits for a gradient of every parameter on every rank before it goes on.",
        "Let every parameter take part in each step (add `0 * output.sum()` of the part that is left out), or pass"
        " `find_unused_parameters=True`, which searches the graph in every step.",
        place(site, "decision"), place(facts.site, "call"), category="suspicious",
    )  # fmt: skip


def listed(names: list[str]) -> str:
    """The first four names, and how many more there are."""
    return ", ".join(f"`{name}`" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def decided(graph: Graph) -> tuple[Site | None, str]:
    """The last decision of a graph that chose an arm: where, and in words."""
    for decision in reversed(graph.decisions):
        site = graph.site_of(decision)
        if site is not None and site.test is not None:
            return site, f"; {code(site.test.expression)}{at(site)} was {decision.outcome} there"
    return None, ""


def reached(graph: Graph) -> set[str]:
    """The names of the parameters that the backward passes of a graph reach, without the wrapper's prefix."""
    names = (graph.values[leaf].name for leaf in reached_leaves(graph))
    return {name.removeprefix("module.") for name in names if name is not None}
