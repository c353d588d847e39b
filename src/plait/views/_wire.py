"""The wire: one distinct graph as columns of small numbers, the form in which a page carries it.

Named and versioned (`plait.page`, WIRE_VERSION), apart from the drawing: `web/src/wire.ts` reads it back. Ids are kept
as differences to the one before, so that the rounds of a loop become the same few numbers and compress to almost
nothing. -1 stands for None. `_pack` makes a chunk of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import sub
from typing import Any

from plait.graph._fold import fold
from plait.graph._marks import Fold
from plait.graph._model import Graph
from plait.graph._notation import elements, op_name
from plait.recording import Sample
from plait.views._lines import saved_by_node

WIRE = "plait.page"
WIRE_VERSION = 2
FOLD_KINDS = (
    "step", "frame", "loop", "again", "op", "input", "decision", "backward", "mode", "event",
)  # fmt: skip
REGION_KINDS = ("frame", "loop", "iteration")
_OUTCOMES = {None: -1, False: 0, True: 1}

Columns = dict[str, Any]


class Table:
    """Numbers things in the order in which they are first met.

    >>> table = Table()
    >>> table("a"), table("b"), table("a"), table.items
    (0, 1, 0, ['a', 'b'])
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def __call__(self, item: Any) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    def maybe(self, item: Any) -> int:
        """The number; -1 for None and the empty string."""
        return -1 if item is None or item == "" else self(item)

    def column(self, items: Iterable[Any]) -> list[int]:
        """The numbers of many, `maybe` of each."""
        listed = list(items)
        known = {item: self.maybe(item) for item in dict.fromkeys(listed)}
        return list(map(known.__getitem__, listed))

    @property
    def items(self) -> list[Any]:
        """What was numbered, in order."""
        return list(self._numbers)


def differences(numbers: Iterable[int]) -> list[int]:
    """Each number minus the one before.

    >>> differences([3, 5, 5, 4])
    [3, 2, 0, -1]
    """
    listed = list(numbers)
    return list(map(sub, listed, [0, *listed[:-1]]))


def graph_wire(graph: Graph, durations: Sequence[int] | None = None, samples: Sequence[Sample] = ()) -> Columns:
    """All of a graph, folded and unfolded."""
    text, types = Table(), Table()
    return {
        "nodes": _nodes(graph, text),
        "values": _values(graph, text, types),
        "grads": _grads(graph, text),
        "decisions": _decisions(graph, text),
        "backwards": [
            [each.after, each.how, list(each.roots), list(each.inputs), _or(each.site), int(each.retain_graph),
             int(each.create_graph)]
            for each in graph.backwards
        ],
        "modes": [[each.after, each.mode, int(each.enabled), _or(each.site)] for each in graph.modes],
        "events": [[each.after, each.kind, each.detail, _or(each.site)] for each in graph.events],
        "regions": _regions(graph, text),
        "fold": _fold(fold(graph), text),
        "scopes": [[scope.id, scope.path, scope.module] for scope in graph.scopes],
        "durations": None if durations is None else list(durations),
        "samples": [[each.node, each.output, each.what, elements(each.elements)] for each in samples],
        "types": [[dtype, list(shape), device, int(grad), int(leaf)]
                  for dtype, shape, device, grad, leaf in types.items],
        "text": text.items,
    }  # fmt: skip


def _or(number: int | None) -> int:
    return -1 if number is None else number


def _whole(numbers: Iterable[int | None]) -> list[int]:
    """-1 for None."""
    return [-1 if number is None else number for number in numbers]


def _nodes(graph: Graph, text: Table) -> Columns:
    nodes = graph.nodes
    kept = saved_by_node(graph)
    ops = {op: text(op_name(op)) for op in dict.fromkeys([node.op for node in nodes])}
    arguments: list[int] = []
    saved: list[int] = []
    for node in nodes:
        # An argument as its distance from the first value of its own node: the same in every round.
        first = node.outputs[0] if node.outputs else 0
        for edge in node.inputs:
            arguments.append(first - edge.value)
        for item in node.saved:
            value = item.value
            saved += (text(item.name), -1, item.nbytes, 2) if value is None else (
                text(item.name), first - value, item.nbytes, 1)  # fmt: skip
    return {
        "op": [ops[node.op] for node in nodes],
        "site": differences(_whole([node.site for node in nodes])),
        "scope": _whole([node.scope for node in nodes]),
        "region": differences(_whole([node.region for node in nodes])),
        "arguments": text.column([node.arguments for node in nodes]),
        "cut": text.column([node.cut for node in nodes]),
        "flags": [(node.kind == "input") + 2 * (not node.grad_mode) + 4 * node.in_backward for node in nodes],
        "inputs": [len(node.inputs) for node in nodes],
        "input_value": arguments,
        "input_position": text.column([edge.position for node in nodes for edge in node.inputs]),
        "saved": [len(node.saved) for node in nodes],
        "saved_items": saved,
        "kept": [kept.get(node.id, 0) for node in nodes],
        "writes": [[node.id, value] for node in nodes for value in node.writes],
    }


def _values(graph: Graph, text: Table, types: Table) -> Columns:
    values = graph.values
    return {
        "node": differences([value.node for value in values]),
        "output": [value.output for value in values],
        "type": types.column([(v.dtype, v.shape, v.device, v.requires_grad, v.leaf) for v in values]),
        "name": text.column([value.name for value in values]),
        # Where None, one more than can be: no value comes after itself.
        "base": [0 if value.base is None else value.id - value.base for value in values],
        "previous": [0 if value.previous is None else value.id - value.previous for value in values],
        "version": [value.version for value in values],
        "grad_fn": differences(_whole([value.grad_fn for value in values])),
    }


def _grads(graph: Graph, text: Table) -> Columns:
    parents, numbers = [], []
    for grad in graph.backward_nodes:
        for parent in grad.parents:
            parents.append(0 if parent is None else grad.id - parent[0])
            numbers.append(-1 if parent is None else parent[1])
    return {
        "name": text.column([grad.name for grad in graph.backward_nodes]),
        "node": differences([grad.node for grad in graph.backward_nodes]),
        "leaf": _whole([grad.leaf for grad in graph.backward_nodes]),
        "parents": [len(grad.parents) for grad in graph.backward_nodes],
        "parent": parents,
        "parent_input": numbers,
    }


def _decisions(graph: Graph, text: Table) -> Columns:
    decisions = graph.decisions
    return {
        "how": [text(each.how) for each in decisions],
        "value": differences(each.value for each in decisions),
        "after": differences(each.after for each in decisions),
        "site": differences(_whole([each.site for each in decisions])),
        "region": differences(_whole([each.region for each in decisions])),
        "outcome": [_OUTCOMES[each.outcome] for each in decisions],
        "comparison": [text.maybe(each.comparison) for each in decisions],
    }


def _regions(graph: Graph, text: Table) -> Columns:
    regions = graph.regions
    return {
        "parent": [0 if each.parent is None else each.id - each.parent for each in regions],
        "kind": [REGION_KINDS.index(each.kind) for each in regions],
        "label": [text.maybe(each.label) for each in regions],
        "site": differences(_whole([each.site for each in regions])),
        "line": differences(each.line for each in regions),
        "index": [each.index for each in regions],
        "trips": [_or(each.trips) for each in regions],
    }


def _fold(root: Fold, text: Table) -> Columns:
    """The folds in the order of the program, parents before children."""
    kinds, labels, parents, sites, low, high, depths, counts = ([] for _ in range(8))  # type: ignore[var-annotated]
    members: list[int] = []
    stack: list[tuple[Fold, int]] = [(root, -1)]
    while stack:
        item, parent = stack.pop()
        number = len(kinds)
        kinds.append(FOLD_KINDS.index(item.kind))
        labels.append(text(op_name(item.label) if item.kind == "op" else item.label))
        parents.append(parent)
        sites.append(_or(item.site))
        low.append(-1 if item.trips is None else item.trips[0])
        high.append(-1 if item.trips is None else item.trips[1])
        depths.append(item.depth)
        counts.append(len(item.members))
        members += differences(item.members)
        stack.extend((child, number) for child in reversed(item.children))
    return {
        "kind": kinds, "label": labels, "parent": parents, "site": sites, "low": low, "high": high, "depth": depths,
        "count": counts, "members": members,
    }  # fmt: skip
