"""A decision is so close that rounding could turn it.

What it finds: comparisons of floating-point numbers whose sides differ by less than rounding does.

Why it matters: with another batch size, device or precision the sum is rounded otherwise and the program takes the
other
branch: runs that should be equal are not.

Example::

    if scores.sum() > 1.0:            # 1.0000001 on this machine, 0.9999999 on that one

Instead::

    if scores.sum() > 1.0 + 1e-4:     # a threshold that no result lies on

Limits: exact equality is not reported (it is usually a value that was set).

Sources: pytorch/pytorch#124025, #45422.
"""

from collections.abc import Iterator

from plait.graph import Graph
from plait.rules._case import Run
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, number, plural

RELATIVE = 2e-6  # some units in the last place of a 32-bit float


def check_run(run: Run) -> Iterator[Finding]:
    """Every comparison that decided."""
    close: dict[int, list[tuple[float, float, int]]] = {}
    for graph, step in run.numbers.items():
        case = run.case(graph)
        for decision, read in zip(case.graph.decisions, step.reads):
            left, right = read.left, read.right
            if left is None or right is None or decision.comparison in (None, "==", "!=") or decision.site is None:
                continue
            if not _floating(case.graph, decision.value) or left == right:
                continue
            if abs(left - right) <= RELATIVE * max(abs(left), abs(right)):
                close.setdefault(decision.site, []).append((left, right, step.id))
    for site, found in close.items():
        where = run.recording.site(site)
        left, right, _ = min(found, key=lambda each: abs(each[0] - each[1]))
        yield run.finding(
            f"the decision {code(where.expression)}{at(where)} fell by {number(abs(left - right))} between"
            f" {left!r} and {right!r}, {plural(len(found), 'time')}.",
            "That is the size of rounding: another batch size, device or precision can turn it.",
            "Move the threshold to where no value lies, or decide in float64.",
            [Where.of("decision", where)],
            steps=[step for *_, step in found],
            margin=abs(left - right),
        )


def _floating(graph: Graph, value: int) -> bool:
    maker = graph.nodes[graph.values[value].node]
    return any(graph.values[edge.value].dtype.startswith(("f", "bf")) for edge in maker.inputs)
