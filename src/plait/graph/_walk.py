"""Walks over a graph: loops with an explicit stack, never recursion, so depth does not matter.

Values flow from a node to the nodes that use them; a value that was written in place also carries what it held
before, so its earlier version counts as a source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from plait._errors import NotFoundError
from plait.graph._model import Graph, Node
from plait.graph._notation import op_name

Nodes = Node | int | Iterable[Node | int]


def order(graph: Graph) -> list[Node]:
    """The nodes so that everything stands after what it uses: the order in which they ran."""
    return list(graph.nodes)


def sources(graph: Graph, node: int) -> tuple[int, ...]:
    """The nodes whose values `node` uses, each once, in the order of its arguments."""
    found: dict[int, None] = {}
    for edge in graph.nodes[node].inputs:
        value = graph.values[edge.value]
        while True:
            found.setdefault(value.node)
            # An alias (output -1) was changed by a write to storage that it shares: both flow on.
            if value.output >= 0 or value.previous is None:
                break
            value = graph.values[value.previous]
    found.pop(node, None)
    return tuple(found)


def all_sources(graph: Graph) -> list[tuple[int, ...]]:
    """The `sources` of every node."""
    maker = [value.node for value in graph.values]
    aliases = {value.id for value in graph.values if value.output < 0}
    found = []
    for node in graph.nodes:
        used = [edge.value for edge in node.inputs]
        if aliases and not aliases.isdisjoint(used):
            found.append(sources(graph, node.id))
        elif len(used) == 1:
            found.append((maker[used[0]],))
        else:
            found.append(tuple(dict.fromkeys([maker[value] for value in used])))
    return found


def targets(graph: Graph) -> list[list[int]]:
    """For every node the nodes that use its values, in order."""
    found: list[list[int]] = [[] for _ in graph.nodes]
    for node, above in enumerate(all_sources(graph)):
        for source in above:
            found[source].append(node)
    return found


def find(graph: Graph, *, op: str | None = None, line: int | None = None, scope: str | None = None) -> list[Node]:
    """Nodes with this op name (`add` finds `__add__` too), source line, and module path or one inside it."""
    found = []
    for node in graph.nodes:
        if op is not None and node.op != op and op_name(node.op) != op:
            continue
        if line is not None:
            site = graph.site_of(node)
            if site is None or not site.line <= line <= site.end_line:
                continue
        if scope is not None:
            module = graph.scope_of(node)
            if module is None or not (module.path == scope or module.path.startswith(f"{scope}.")):
                continue
        found.append(node)
    return found


def ancestors(graph: Graph, start: Nodes) -> list[Node]:
    """Every node from which a value flows into `start` (a node or several), in order, without `start`."""
    begin = _numbers(graph, start)
    seen = set(begin)
    stack = list(begin)
    while stack:
        for source in sources(graph, stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return [graph.nodes[number] for number in sorted(seen.difference(begin))]


def descendants(graph: Graph, start: Nodes) -> list[Node]:
    """Every node into which a value of `start` (a node or several) flows, in order, without `start`."""
    begin = _numbers(graph, start)
    reached = set(begin)
    # The order of the nodes is an order of the flow, so one pass from the first of them finds all.
    for node in graph.nodes[min(begin, default=0) :]:
        if node.id not in reached and any(source in reached for source in sources(graph, node.id)):
            reached.add(node.id)
    return [graph.nodes[number] for number in sorted(reached.difference(begin))]


def path(graph: Graph, start: Node | int, end: Node | int) -> list[Node] | None:
    """A shortest path along which values flow from `start` to `end`, both included; None if there is none."""
    (first,), (last,) = _numbers(graph, start), _numbers(graph, end)
    toward: dict[int, int] = {last: last}
    queue = deque([last])
    while queue and first not in toward:
        number = queue.popleft()
        for source in sources(graph, number):
            if source not in toward and source >= first:
                toward[source] = number
                queue.append(source)
    if first not in toward:
        return None
    steps = [first]
    while steps[-1] != last:
        steps.append(toward[steps[-1]])
    return [graph.nodes[number] for number in steps]


def between(graph: Graph, start: Nodes, end: Nodes) -> list[Node]:
    """The slice from `start` to `end`: every node on a path between them, both included if there is a path."""
    below = {*_numbers(graph, start), *(node.id for node in descendants(graph, start))}
    above = {*_numbers(graph, end), *(node.id for node in ancestors(graph, end))}
    return [graph.nodes[number] for number in sorted(below & above)]


def backward_order(graph: Graph, root: int) -> list[int]:
    """The backward nodes that a backward pass from value `root` reaches, latest forward node first.

    This is how autograd runs them (its queue goes by the number of the call that made the node), with the
    accumulators of the leaves where they become ready.
    """
    begin = graph.values[root].grad_fn
    if begin is None:
        return []
    seen = {begin}
    stack = [begin]
    while stack:
        for parent in graph.backward_nodes[stack.pop()].parents:
            if parent is not None and parent[0] not in seen:
                seen.add(parent[0])
                stack.append(parent[0])

    def moment(number: int) -> tuple[int, int]:
        node = graph.backward_nodes[number]
        return (-1 if node.leaf is not None else node.node, -number)

    return sorted(seen, key=moment, reverse=True)


def reached_leaves(graph: Graph) -> set[int]:
    """The values into which the backward passes of a graph add a gradient."""
    found = set()
    for backward in graph.backwards:
        for root in backward.roots:
            for number in backward_order(graph, root):
                leaf = graph.backward_nodes[number].leaf
                if leaf is not None:
                    found.add(leaf)
    return found


def _numbers(graph: Graph, nodes: Nodes) -> list[int]:
    many = [nodes] if isinstance(nodes, (Node, int)) else nodes
    found = [node.id if isinstance(node, Node) else node for node in many]
    for number in found:
        if not 0 <= number < len(graph.nodes):
            count = len(graph.nodes)
            raise NotFoundError(
                f"there is no node {number}: the graph has {count} node{'' if count == 1 else 's'}"
                + (f", 0 to {count - 1}" if count else "")
            )
    return found
