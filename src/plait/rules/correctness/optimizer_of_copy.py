"""An optimizer is given a tensor that is the result of an operation.

What it finds: the operation (a move, a cast, an initialisation) after `requires_grad=True`, and the optimizer's line.

Why it matters: only leaves can be optimised. The error does not say which operation made it a result.

Example::

    w = torch.zeros(3, requires_grad=True).double()
    torch.optim.SGD([w], lr=0.1)

Instead::

    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)

Limits: none known.

Sources: wangkuiyi/gotorch#261.
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, name, says


def check(case: Case) -> Iterator[Finding | None]:
    """Every optimizer that was made in the step."""
    for event in case.graph.events:
        if event.kind != "optimizer_of_results":
            continue
        for value in event.values:
            maker = case.maker(value)
            born = next(
                (
                    n
                    for n in sorted(case.above(maker.id))
                    if any(
                        case.graph.values[o].leaf and case.graph.values[o].requires_grad
                        for o in case.graph.nodes[n].outputs
                    )
                ),
                None,
            )
            made = None if born is None else case.site(case.graph.nodes[born])
            yield case.finding(
                f"{name(case.graph, value)}, given to `{event.detail}`{at(case.site(event))}, is no leaf: it"
                " is the result"
                f" of {says(case.graph, maker)}{at(case.site(maker))}.",
                "An optimizer updates leaves; it refuses results of operations.",
                "Move, cast and initialise first, and ask for gradients last (`.detach().requires_grad_()`).",
                [maker], ("result", case.site(maker)), ("optimizer", case.site(event)), ("made", made),
            )  # fmt: skip
