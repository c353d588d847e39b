"""A gradient stops being a finite number.

What it finds: the operation whose incoming gradient is finite and whose outgoing one is not (or whose result is not,
if it happened in the forward already), with its line, the round of its loop, the elements, and the reason: a branch
that
`where` did not select, a root, logarithm or division at zero, a row of attention with every key masked, the standard
deviation of one element.

Why it matters: NaN spreads to every parameter in one step; anomaly mode shows where it passed, not why.

Example::

    y = torch.where(x > 0, x.sqrt(), x)            # the gradient of sqrt at 0 is infinite, and 0 * inf is NaN

Instead::

    safe = torch.where(x > 0, x, torch.ones_like(x))
    y = torch.where(x > 0, safe.sqrt(), x)

Limits: elements are known for small tensors of the first steps; else record with `--values stats`, which measures every
gradient and names the operation.

Sources: pytorch/pytorch#68425, #41508, #4320.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._elements import Elements, elements, is_finite, round_of
from plait.rules._reasons import SINGULAR, reason
from plait.rules._rule import Finding
from plait.rules._words import at, name, plural, says


def check(case: Case) -> Iterator[Finding | None]:
    """The first such place of each graph."""
    if not case.graph.backwards:
        return
    known = elements(case)
    found = _from_samples(case, known) or _from_stats(case, known)
    if found is not None:
        yield _finding(case, known, *found)


def _from_samples(case: Case, known: Elements) -> tuple[Node, int] | None:
    """(operation, the input whose gradient is not finite): all that reaches the operation from behind is finite."""
    graph = case.graph
    bad = [value for value in known.gradients if known.finite_gradient(value) is False]
    for value in sorted(bad, reverse=True):
        users = [graph.nodes[user] for user in case.users[graph.values[value].node]]
        users = [node for node in users if not node.in_backward and any(edge.value == value for edge in node.inputs)]
        behind = {
            node.id: [known.finite_gradient(out) for out in node.outputs if out in known.gradients] for node in users
        }
        if any(False in each for each in behind.values()):
            continue  # it came from further behind
        born = [node for node in users if behind[node.id] or node.id in _roots(case)]
        if born:
            return next((node for node in reversed(born) if op_name(node.op) in SINGULAR), born[-1]), value
    return None


def _roots(case: Case) -> set[int]:
    return {case.graph.values[root].node for each in case.graph.backwards for root in each.roots}


def _from_stats(case: Case, known: Elements) -> tuple[Node, int] | None:
    for each in known.stats:
        if each.first_nonfinite:
            node = case.graph.nodes[each.node]
            if node.kind == "op" and node.inputs and each.norm_in is not None and is_finite(each.norm_in):
                trained = [edge.value for edge in node.inputs if case.graph.values[edge.value].requires_grad]
                return node, (trained or [node.inputs[0].value])[0]
            return None
    return None


def _finding(case: Case, known: Elements, node: Node, value: int) -> Finding | None:
    graph = case.graph
    gradient = known.gradient(value)
    bad = [] if gradient is None else [place for place, each in enumerate(gradient) if not is_finite(each)]
    count = f"{len(bad)} of {plural(len(gradient or ()), 'element')} of" if bad else "elements of"
    where = round_of(case, node)
    loop = f", round {where[1] + 1} of `{where[0]}`" if where is not None and where[2] > 1 else ""
    why, cure = reason(case, known, node, value, bad)
    return case.finding(
        f"the gradient stops being finite in the backward of {says(graph, node)}{at(case.site(node))}{loop}:"
        f" {count} the"
        f" gradient of {name(graph, value)} are NaN or infinite.",
        why, cure, [node], ("born", case.site(node)), ("made", case.site(case.maker(value))),
        ("backward", case.site(graph.backwards[-1])), elements=len(bad), op=op_name(node.op),
    )  # fmt: skip
