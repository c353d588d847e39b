"""Many small calls could run as a few large ones.

What it finds: the same operation with the same weights called many times in a step on one example or node at a time,
and
how few calls would do: one for each depth of their dependences. Also a function that is called for each example alone.

Why it matters: on small inputs the time goes into starting operations, not into computing.

Example::

    outputs = [model(tree) for tree in trees]

Instead::

    outputs = plait.batch(model)(trees)

Limits: how much time it saves depends on the machine; the number of calls is what is counted.

Sources: pytorch/pytorch#1642; dasguptar/treelstm.pytorch#6.
"""

from collections.abc import Iterator

from plait.graph import Node, Region, Site
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, says

FEWEST = 16
WIDTH = 4.0
_CALLS = 3


def check(case: Case) -> Iterator[Finding | None]:
    """Operations with weights first, else functions called for one example each."""
    found = _operations(case)
    if found is None:
        found = _functions(case)
    if found is not None:
        yield found


def _operations(case: Case) -> Finding | None:
    graph = case.graph
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in graph.nodes:
        if node.kind != "op" or node.in_backward or node.site is None:
            continue
        weights = tuple(case.first(e.value) for e in node.inputs
                        if graph.values[e.value].leaf and graph.values[e.value].requires_grad)  # fmt: skip
        data = [graph.values[e.value].shape for e in node.inputs if case.first(e.value) not in weights]
        if weights and data and all(len(shape) < 2 or shape[0] == 1 for shape in data):
            groups.setdefault((node.site, node.op, weights), []).append(node)
    best: tuple[float, list[Node], int] | None = None
    for nodes in groups.values():
        if len(nodes) < FEWEST:
            continue
        levels = _levels(case, nodes)
        width = len(nodes) / levels
        if width >= WIDTH and (best is None or len(nodes) > len(best[1])):
            best = width, nodes, levels
    if best is None:
        return None
    width, nodes, levels = best
    site = case.site(nodes[0])
    return case.finding(
        f"{len(nodes):,} calls of {says(graph, nodes[0])}{at(site)} in a step, each on one row, could run as"
        f" {levels:,}:"
        f" {width:.1f} rows a call on average.",
        f"`{op_name(nodes[0].op)}` is started {len(nodes):,} times where {levels:,} would do; on small inputs"
        " that is most of"
        " the time.",
        "Write the model for one example and run it with `plait.batch(model)(examples)`, or group the calls by depth.",
        nodes[:8],
        ("called", site),
        calls=len(nodes),
        could_be=levels,
    )


def _levels(case: Case, nodes: list[Node]) -> int:
    """The longest chain of calls of the group, each needing the one before."""
    members = {node.id for node in nodes}
    depth: list[int] = []
    for number in range(len(case.graph.nodes)):
        deepest = max((depth[source] for source in case.sources[number]), default=0)
        depth.append(deepest + (number in members))
    return max(depth[number] for number in members)


def _functions(case: Case) -> Finding | None:
    """A function of the program, called several times from one place in a loop; no call needs another."""
    graph = case.graph
    calls: dict[tuple[int, str], list[Region]] = {}
    for region in graph.regions:
        if region.kind == "frame" and region.site is not None and "<" not in region.label.split(".")[-1]:
            site = graph._site_by_id.get(region.site)
            around = graph.regions[region.parent] if region.parent is not None else None
            if site is not None and around is not None and around.kind == "iteration":
                calls.setdefault((region.site, region.label), []).append(region)
    for (number, label), regions in calls.items():
        if len(regions) < _CALLS:
            continue
        inside = [_nodes(case, region) for region in regions]
        if any(not nodes or not any(case.graph.nodes[n].kind == "op" and case.graph.nodes[n].inputs for n in nodes)
               for nodes in inside) or _needs(case, inside):  # fmt: skip
            continue
        operations = sum(len(nodes) for nodes in inside)
        widest = max(len(nodes) for nodes in inside)
        if operations < 2 * widest:
            continue
        site = graph._site_by_id[number]
        return case.finding(
            f"{code(site.expression)}{at(site)} runs `{label.split('.')[-1]}` for one example at a time,"
            f" {len(regions):,}"
            f" times: {operations:,} operations that could run as about {widest:,}.",
            "No call needs the result of another, so they could share their operations.",
            f"`plait.batch({label.split('.')[-1]})(examples)` runs them together, whatever their lengths and branches.",
            [nodes[0] for nodes in inside[:8]], Where.of("called", site), ("defined", _first_site(case, inside[0])),
            calls=len(regions), operations=operations,
        )  # fmt: skip
    return None


def _nodes(case: Case, frame: Region) -> list[int]:
    return case_nodes(case).get(frame.id, [])


def case_nodes(case: Case) -> dict[int, list[int]]:
    """For every frame the operations that ran in it, inner frames included; worked out once."""
    kept: dict[int, list[int]] | None = getattr(case, "_frame_nodes", None)
    if kept is None:
        kept = {}
        for node in case.graph.nodes:
            if node.kind == "op" and not node.in_backward:
                for region in case.regions_above(node.region):
                    if region.kind == "frame":
                        kept.setdefault(region.id, []).append(node.id)
        case._frame_nodes = kept  # type: ignore[attr-defined]
    return kept


def _needs(case: Case, inside: list[list[int]]) -> bool:
    before: set[int] = set()
    for nodes in inside:
        if before and any(source in before for node in nodes for source in case.sources[node]):
            return True
        before.update(nodes)
    return False


def _first_site(case: Case, nodes: list[int]) -> Site | None:
    return case.site(case.graph.nodes[nodes[0]])
