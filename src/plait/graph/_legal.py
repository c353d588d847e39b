"""What a legal graph is: a table of named rules, one function each. `problems` checks all of them.

The rules say what every other part may rely on. They take one pass each and no rule assumes that another holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from plait.graph._model import Graph, Region

_T = TypeVar("_T")


class Rule(NamedTuple):
    """One line of the table; `broken` yields a sentence for every place that breaks it."""

    name: str
    says: str
    broken: Callable[[Graph], Iterator[str]]


def _ids(graph: Graph) -> Iterator[str]:
    tables = {
        "node": graph.nodes, "value": graph.values, "backward node": graph.backward_nodes,
        "decision": graph.decisions, "backward pass": graph.backwards, "region": graph.regions,
    }  # fmt: skip
    for what, table in tables.items():
        for place, item in enumerate(table):
            if item.id != place:  # type: ignore[attr-defined]
                yield f"{what} {item.id} stands at position {place}"  # type: ignore[attr-defined]


def _outputs(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for index, number in enumerate(node.outputs):
            value = _get(graph.values, number)
            if value is None:
                yield f"output {index} of node {node.id} is value {number}, which does not exist"
            elif (value.node, value.output) != (node.id, index):
                says = f"it is output {value.output} of node {value.node}"
                yield f"value {number} says {says}, but node {node.id} has it as output {index}"
    for value in graph.values:
        node_ = _get(graph.nodes, value.node)
        if node_ is None:
            yield f"value {value.id} comes from node {value.node}, which does not exist"
        elif value.output >= 0 and (value.output >= len(node_.outputs) or node_.outputs[value.output] != value.id):
            yield f"value {value.id} is no output of node {value.node}"
        elif value.output < 0 and value.previous is None:
            yield f"value {value.id} is no output of a node and replaces no other value"


def _edges(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for edge in node.inputs:
            value = _get(graph.values, edge.value)
            if value is None:
                yield f"node {node.id} uses value {edge.value}, which does not exist"
            elif value.node >= node.id:
                yield f"node {node.id} uses value {value.id} of node {value.node}, which did not run before it"


def _inputs(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.kind == "input" and (node.inputs or len(node.outputs) != 1 or node.backward or node.writes):
            yield f"input {node.id} does more than bring one value"


def _positions(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        positions = [edge.position for edge in node.inputs]
        if len(set(positions)) != len(positions):
            yield f"node {node.id} has two arguments at one position ({', '.join(positions)})"


def _versions(graph: Graph) -> Iterator[str]:
    for value in graph.values:
        if value.previous is None:
            if value.version != 0:
                yield f"value {value.id} has version {value.version} and no earlier one"
            continue
        previous = _get(graph.values, value.previous)
        if previous is None or previous.id >= value.id:
            yield f"value {value.id} replaces value {value.previous}, which was not there before it"
        elif value.version <= previous.version:
            yield f"value {value.id} has version {value.version}, but replaces version {previous.version}"


def _bases(graph: Graph) -> Iterator[str]:
    for value in graph.values:
        if value.base is not None and not 0 <= value.base < value.id:
            yield f"value {value.id} is a tensor view of value {value.base}, which was not there before it"


def _grad_fns(graph: Graph) -> Iterator[str]:
    for value in graph.values:
        if value.grad_fn is None:
            continue
        made = _get(graph.backward_nodes, value.grad_fn)
        if made is None:
            yield f"value {value.id} has grad_fn {value.grad_fn}, which does not exist"
        elif made.leaf is not None:
            yield f"value {value.id} has the accumulator of leaf {made.leaf} as its grad_fn"
        elif value.leaf:
            yield f"value {value.id} is a leaf and has grad_fn {made.name}"


def _backward_nodes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for number in node.backward:
            made = _get(graph.backward_nodes, number)
            if made is None or made.node != node.id:
                yield f"node {node.id} lists backward node {number}, which is not its own"
    for item in graph.backward_nodes:
        home = _get(graph.nodes, item.node)
        if home is None:
            yield f"backward node {item.id} ({item.name}) belongs to node {item.node}, which does not exist"
        elif item.leaf is None and item.id not in home.backward:
            yield f"backward node {item.id} ({item.name}) is not listed by its node {item.node}"
        elif item.leaf is not None and _get(graph.values, item.leaf) is None:
            yield f"backward node {item.id} adds into value {item.leaf}, which does not exist"


def _parents(graph: Graph) -> Iterator[str]:
    for item in graph.backward_nodes:
        if item.leaf is not None and item.parents:
            yield f"backward node {item.id} is the accumulator of a leaf and has parents"
        for parent in item.parents:
            if parent is None:
                continue
            found = _get(graph.backward_nodes, parent[0])
            if found is None or parent[1] < 0:
                yield f"backward node {item.id} ({item.name}) has parent {parent}, which does not exist"
            elif found.leaf is None and found.node > item.node:
                what = f"backward node {item.id} ({item.name}) of node {item.node}"
                yield f"{what} hands on to the later node {found.node}"


def _writes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        used = {edge.value for edge in node.inputs}
        for value in node.writes:
            if value not in used:
                yield f"node {node.id} writes value {value}, which it does not use"


def _saved(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for item in node.saved:
            value = None if item.value is None else _get(graph.values, item.value)
            if item.value is not None and (value is None or value.node > node.id):
                yield f"node {node.id} saves value {item.value}, which was not there"
            if item.nbytes < 0:
                yield f"node {node.id} saves {item.nbytes} bytes"


def _moments(graph: Graph) -> Iterator[str]:
    tables = {
        "decision": graph.decisions, "backward pass": graph.backwards, "mode change": graph.modes,
        "event": graph.events,
    }  # fmt: skip
    for what, table in tables.items():
        last = 0
        for place, item in enumerate(table):
            if not last <= item.after <= len(graph.nodes):  # type: ignore[attr-defined]
                yield f"{what} {place} stands after node {item.after}, out of order"  # type: ignore[attr-defined]
            last = item.after  # type: ignore[attr-defined]


def _existing(graph: Graph) -> Iterator[str]:
    used: list[tuple[str, int, tuple[int, ...]]] = [
        (f"decision {item.id}", item.after, (item.value,)) for item in graph.decisions
    ]
    used += [(f"backward pass {item.id}", item.after, item.roots + item.inputs) for item in graph.backwards]
    used += [(f"event {place}", item.after, item.values) for place, item in enumerate(graph.events)]
    for what, after, values in used:
        for number in values:
            value = _get(graph.values, number)
            if value is None or value.node >= after:
                yield f"{what} refers to value {number}, which was not there at that point"


def _outcomes(graph: Graph) -> Iterator[str]:
    for item in graph.decisions:
        if item.how == "bool" and item.outcome is None:
            yield f"decision {item.id} asked for a bool and has no outcome"


def _regions(graph: Graph) -> Iterator[str]:
    count: dict[int, int] = {}
    for region in graph.regions:
        parent: Region | None = None
        if region.parent is not None:
            parent = _get(graph.regions, region.parent)
            if parent is None or parent.id >= region.id:
                yield f"region {region.id} lies in region {region.parent}, which did not begin before it"
                continue
        if (region.kind == "iteration") != (parent is not None and parent.kind == "loop"):
            outside = parent.kind if parent else "nothing"
            yield f"region {region.id} ({region.kind}) lies in {outside}; loops hold iterations, nothing else does"
        if region.kind == "iteration" and region.parent is not None:
            expected = count.get(region.parent, 0)
            if region.index != expected:
                yield f"iteration {region.id} has number {region.index}; the next of its loop is {expected}"
            count[region.parent] = expected + 1
    for region in graph.regions:
        # The last test of a `while` is a round that did not happen, so one more iteration than trips may be there.
        seen = count.get(region.id, 0)
        if region.kind == "loop" and region.trips is not None and region.trips not in (seen, seen - 1):
            yield f"loop {region.id} has {seen} iterations and {region.trips} trips"


def _references(graph: Graph) -> Iterator[str]:
    sites = {site.id for site in graph.sites}
    scopes = {scope.id for scope in graph.scopes}
    tables = {
        "node": graph.nodes, "decision": graph.decisions, "backward pass": graph.backwards,
        "mode change": graph.modes, "event": graph.events, "region": graph.regions,
    }  # fmt: skip
    for what, table in tables.items():
        for place, item in enumerate(table):
            site, region = item.site, getattr(item, "region", None)  # type: ignore[attr-defined]
            if site is not None and site not in sites:
                yield f"{what} {place} stands at site {site}, which the graph does not hold"
            if region is not None and _get(graph.regions, region) is None:
                yield f"{what} {place} lies in region {region}, which does not exist"
    for node in graph.nodes:
        if node.scope is not None and node.scope not in scopes:
            yield f"node {node.id} ran in scope {node.scope}, which the graph does not hold"


RULES = (
    Rule("ids", "ids are positions in the tables of the graph", _ids),
    Rule("outputs", "a value belongs to the node that lists it as output", _outputs),
    Rule("edges", "a node uses values of earlier nodes", _edges),
    Rule("inputs", "an input brings one value and uses nothing", _inputs),
    Rule("positions", "an argument position is filled once", _positions),
    Rule("versions", "versions grow along `previous` and begin at 0", _versions),
    Rule("bases", "a tensor view is younger than what it shows", _bases),
    Rule("grad_fns", "a grad_fn exists and only values that are no leaves have one", _grad_fns),
    Rule("backward-nodes", "a backward node belongs to one node, an accumulator to one leaf", _backward_nodes),
    Rule("parents", "gradients flow to backward nodes of the same or earlier nodes", _parents),
    Rule("writes", "a node writes only into its arguments", _writes),
    Rule("saved", "what a node keeps for backward existed when it ran", _saved),
    Rule("moments", "decisions, passes, modes and events are in order", _moments),
    Rule("existing", "decisions, passes and events refer to values that exist at that point", _existing),
    Rule("outcomes", "a bool that was read has an outcome", _outcomes),
    Rule("regions", "regions form a tree; loops hold iterations, numbered from 0", _regions),
    Rule("references", "sites, scopes and regions that are referred to exist", _references),
)


def problems(graph: Graph) -> list[str]:
    """A sentence for every place that breaks a rule, with the rule's name in front; empty for a legal graph."""
    return [f"{rule.name}: {sentence}" for rule in RULES for sentence in rule.broken(graph)]


def _get(table: tuple[_T, ...], number: int) -> _T | None:
    return table[number] if 0 <= number < len(table) else None
