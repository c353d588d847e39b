"""DistributedDataParallel refuses to go on: parameters that the last step did not reach."""

from __future__ import annotations

from plait.graph import Graph, Site
from plait.graph._walk import backward_order
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
    found = set()
    for backward in graph.backwards:
        for root in backward.roots:
            for number in backward_order(graph, root):
                leaf = graph.backward_nodes[number].leaf
                name = None if leaf is None else graph.values[leaf].name
                if name is not None:
                    found.add(name.removeprefix("module."))
    return found
