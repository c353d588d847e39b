"""A gradient grows by a factor of a million in one operation, or from round to round of a loop.

What it finds: an operation whose outgoing gradient is more than 1,000,000 times its incoming one (a division by a norm
that was clamped to eps), and unrolled loops in which the gradient grows in every round.

Why it matters: no NaN and no error; the loss is fine, and one step later the weights are destroyed.

Example::

    F.normalize(torch.zeros(3, requires_grad=True), dim=0).sum().backward()     # gradient 1e12

Instead::

    x / (x.norm(dim=-1, keepdim=True) + 1e-3)          # or leave empty rows out

Limits: needs the elements of small tensors (first steps) or `--values stats`.

Sources: pytorch/pytorch#184575.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._elements import Elements, elements, is_finite, largest
from plait.rules._growth import growth
from plait.rules._rule import Finding
from plait.rules._words import at, name, number, says

JUMP = 1e6


def check(case: Case) -> Iterator[Finding | None]:
    """Loop by loop, then operation by operation: a state that explodes makes every later operation steep."""
    if not case.graph.backwards:
        return
    known = elements(case)
    found = growth(case, known)
    if found is not None and found.factor > 1.5 and found.total > JUMP:
        yield case.finding(
            f"the gradient grows {found.factor:.2g} times in every round of `{found.header}`,"
            f" {number(found.total)} times"
            f" over {found.rounds} rounds ({says(case.graph, found.node)}{at(case.site(found.node))}).",
            "Early rounds get gradients that drown everything else, and one update destroys the weights.",
            "Clip the gradient norm, cut the loop into windows, or keep the recurrent matrix near orthogonal.",
            [found.node],
            ("grows", case.site(found.node)),
            factor=found.factor,
            rounds=found.rounds,
        )
        return
    for node, before, after, value in _jumps(case, known):
        yield case.finding(
            f"the gradient jumps from {number(before)} to {number(after)} in the backward of {says(case.graph, node)}"
            f"{at(case.site(node))}.",
            f"`{op_name(node.op)}` is very steep at this input"
            + (f" ({name(case.graph, value)} is 0 there)" if _zero(known, value) else "")
            + "; one update with it destroys the weights, and no value is NaN.",
            "Keep the input away from the point where it is divided by almost nothing: a larger eps inside,"
            " or leave empty"
            " rows out.",
            [node],
            ("steep", case.site(node)),
            ("made", case.site(case.maker(value))),
            before=before,
            after=after,
        )
        return


def _scaled(case: Case, node: Node) -> bool:
    """Whether the program multiplies by a number of its own (loss scaling)."""
    if op_name(node.op) not in ("mul", "rmul", "div", "mul_", "div_"):
        return False
    others = [case.graph.values[edge.value] for edge in node.inputs]
    return len(others) == 1 or any(not each.requires_grad and not each.shape for each in others)


def _zero(known: Elements, value: int) -> bool:
    numbers = known.values.get(value)
    return numbers is not None and any(each == 0 for each in numbers)


def _jumps(case: Case, known: Elements) -> Iterator[tuple[Node, float, float, int]]:
    for node in reversed(case.graph.nodes) if known.gradients else ():
        if node.kind != "op" or not node.outputs or node.in_backward:
            continue
        behind = known.gradient(node.outputs[0])
        if behind is None or not all(map(is_finite, behind)) or not largest(behind) > 0:
            continue
        for edge in node.inputs:
            if len(case.users[case.graph.values[edge.value].node]) > 1:
                continue  # its gradient is a sum over several uses
            front = known.gradient(edge.value)
            if front is None or not all(map(is_finite, front)) or _scaled(case, node):
                continue
            if largest(front) > max(JUMP * largest(behind), 1.0):
                yield node, largest(behind), largest(front), edge.value
    for each in known.stats:
        node = case.graph.nodes[each.node]
        if len(node.backward) != 1:
            continue  # several backward nodes in one operation: their norms are of different things
        if (
            (
                node.kind == "op"
                and each.norm_in
                and each.norm_out
                and is_finite(each.norm_out)
                and is_finite(each.norm_in)
            )
            and each.norm_out > max(JUMP * each.norm_in, 1.0)
            and node.inputs
            and not _scaled(case, node)
        ):
            yield node, each.norm_in, each.norm_out, node.inputs[0].value
