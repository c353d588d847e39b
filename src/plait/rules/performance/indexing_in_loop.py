"""A tensor that needs a gradient is read one entry at a time.

What it finds: the same index expression (`x[t]`) on one tensor, dozens of times in a step.

Why it matters: the backward of each `x[t]` makes a tensor of zeros of the size of `x` and adds it up: T entries cost T
times T.

Example::

    for t in range(len(x)):
        h = cell(x[t], h)

Instead::

    for row in x.unbind(0):
        h = cell(row, h)

Limits: from 32 reads of one tensor on.

Sources: pytorch/pytorch#9701, #5159.
"""

from collections.abc import Iterator

from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, name, says, size

FEWEST = 32


def check(case: Case) -> Iterator[Finding | None]:
    """By place and tensor."""
    graph = case.graph
    groups: dict[tuple[int, int], list[int]] = {}
    for node in graph.nodes:
        if (
            (
                node.kind == "op"
                and node.site is not None
                and op_name(node.op) in ("getitem", "select")
                and not node.in_backward
            )
            and len(node.inputs) == 1
            and graph.values[node.inputs[0].value].requires_grad
        ):
            groups.setdefault((node.site, node.inputs[0].value), []).append(node.id)
    for (_, value), nodes in groups.items():
        found = graph.values[value]
        first = graph.nodes[nodes[0]]
        if len(nodes) < FEWEST or len(graph.values[first.outputs[0]].shape) != len(found.shape) - 1:
            continue
        yield case.finding(
            f"{says(graph, first)}{at(case.site(first))} read {name(graph, value)} one entry at a time,"
            f" {len(nodes):,} times"
            " in a step.",
            f"The backward of each makes zeros of the whole size ({size(found.nbytes)}) and adds them:"
            f" {size(found.nbytes * len(nodes))} written for {size(found.nbytes)} of gradient.",
            "Iterate over `x.unbind(0)` (or over the tensor itself): its backward stacks the gradients once.",
            nodes[:8],
            ("read", case.site(first)),
            ("made", case.site(case.maker(value))),
            reads=len(nodes),
        )
