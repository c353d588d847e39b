"""A value is changed through `.data` where autograd cannot see it.

What it finds: a write through `.data` into memory that an operation had saved for a backward pass that runs later, and
an update through `.data` of a tensor inside of the graph by a value that has a graph itself.

Why it matters: autograd counts writes to refuse wrong gradients; `.data` does not count. The gradient is silently
wrong, or the path through the update is missing.

Example::

    out = x.sigmoid()
    out.data.clamp_(0.1, 0.9)      # sigmoid's backward uses `out`
    out.sum().backward()

Instead::

    out = x.sigmoid().clamp(0.1, 0.9)

Limits: writes through NumPy are not seen. Updates of parameters between two steps are silent.

Sources: pytorch/pytorch#6990, #30987; facebookresearch/higher#74.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, name, op_name, says


def check(case: Case) -> Iterator[Finding | None]:
    """Every write of the step."""
    for node in case.graph.nodes:
        for value in node.writes:
            door = _data(case, value)
            if door is None or node.in_backward:
                continue
            saver = _saved(case, node, case.roots[value])
            if saver is not None:
                yield _wrong(case, node, value, saver)
            elif _lost(case, node, value):
                yield _missing(case, node, value)


def _data(case: Case, value: int) -> Node | None:
    """The `.data` through which a value shares its memory."""
    values = case.graph.values
    number: int | None = value
    while number is not None:
        maker = case.maker(number)
        if maker.op == "data" and values[number].previous is None:
            return maker
        number = values[number].previous if values[number].previous is not None else values[number].base
    return None


def _saved(case: Case, writer: Node, root: int) -> Node | None:
    """An operation that saved this memory before the write and whose backward ran after it."""
    later = [each for each in case.graph.backwards if each.after > writer.id and not case.failed(each)]
    if not later:
        return None
    reached = {case.graph.backward_nodes[n].node for each in later for r in each.roots for n in case.reach(r).nodes}
    for node in case.graph.nodes[: writer.id]:
        if node.id in reached and any(item.value is not None and case.roots[item.value] == root for item in node.saved):
            return node
    return None


def _lost(case: Case, writer: Node, value: int) -> bool:
    """Whether a tensor inside of the graph is updated by a value with a graph, and trained on afterwards."""
    values = case.graph.values
    target = values[case.roots[value]]
    if target.leaf or not target.requires_grad:
        return False
    sources = [edge.value for edge in writer.inputs if edge.value != value]
    if not any(values[each].requires_grad for each in sources):
        return False
    return any(
        case.roots[edge.value] == target.id for node in case.graph.nodes[writer.id + 1 :] for edge in node.inputs
    )


def _wrong(case: Case, node: Node, value: int, saver: Node) -> Finding | None:
    graph, site = case.graph, case.site(saver)
    what = name(graph, case.roots[value])
    return case.finding(
        f"{says(graph, node)}{at(case.site(node))} wrote to {what} through `.data`, after `{op_name(saver.op)}`"
        f"{at(site)} had saved it for backward.",
        "Autograd does not count writes through `.data`, so the backward pass uses the new numbers: the gradient is"
        " silently wrong.",
        "Make a new tensor instead of writing, or write before it is used; to change what is not trained use"
        " `with torch.no_grad():`, which is counted.",
        [node, saver], ("written", case.site(node)), ("saved", site),
    )  # fmt: skip


def _missing(case: Case, node: Node, value: int) -> Finding | None:
    graph = case.graph
    what = name(graph, case.roots[value])
    return case.finding(
        f"{says(graph, node)}{at(case.site(node))} updates {what} through `.data` by a value that has a graph.",
        "The new numbers are there, but no edge leads to where they came from: the gradient through the update is"
        " missing (first order only).",
        "Make a new tensor: `new = old - lr * gradient`, and use that (`torch.func.functional_call` for modules).",
        [node], ("written", case.site(node)), ("made", case.site(case.maker(case.roots[value]))),
    )  # fmt: skip
