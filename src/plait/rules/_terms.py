"""The summands of a loss."""

from __future__ import annotations

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case

_SUMS = {"add", "add_", "sub", "sub_", "rsub", "neg", "negative", "positive", "subtract", "radd"}
_SCALES = {"mul", "mul_", "div", "div_", "true_divide", "rmul", "multiply", "divide"}
_JOINS = {"stack", "cat", "concat", "hstack"}
_ALL = {"sum", "mean"}
_SAME = {"squeeze", "view", "reshape", "float", "double", "to", "flatten", "clone", "contiguous"}


def terms(case: Case, value: int) -> list[int]:
    """The values whose (scaled) sum a value is; the value itself if it is no sum."""
    found: list[int] = []
    stack, seen = [value], {value}
    while stack:
        number = stack.pop()
        inner = _summands(case, number)
        if not inner:
            found.append(number)
            continue
        for each in inner:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found


def _summands(case: Case, value: int) -> list[int]:
    node = case.maker(value)
    if node.kind != "op" or node.cut is not None:
        return []
    op = op_name(node.op)
    inputs = [edge.value for edge in node.inputs]
    if op in _SUMS:
        return inputs
    if op in _SCALES and inputs:
        whole = [each for each in inputs if not _plain(case, each)]
        if len(inputs) == 1:
            return inputs
        return (
            whole
            if len(whole) == 1 and op not in ("div", "true_divide", "divide")
            else inputs[:1]
            if (op in ("div", "true_divide", "divide") and _plain(case, inputs[-1]))
            else []
        )
    if op in _SAME and len(inputs) == 1:
        return inputs
    if op in _ALL and len(inputs) == 1:
        joined = case.maker(inputs[0])
        if op_name(joined.op) in _JOINS and _scalars(case, joined):
            return [edge.value for edge in joined.inputs]
    return []


def _plain(case: Case, value: int) -> bool:
    """A number that nothing trained flows into: a weight of a term."""
    found = case.graph.values[value]
    return (
        not found.requires_grad
        and not case.trained[found.node]
        and not found.shape
        and not _from_read(case, found.node)
    )


def _from_read(case: Case, node: int) -> bool:
    from plait.rules._cuts import cuts_above

    return bool(cuts_above(case, node))


def _scalars(case: Case, node: Node) -> bool:
    return all(len(case.graph.values[edge.value].shape) <= 1 for edge in node.inputs)
