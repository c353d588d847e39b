"""The gradient dies out over the rounds of a loop.

What it finds: unrolled loops in which the gradient of the state shrinks in every round, by more than 100,000,000
times in
all.

Why it matters: early rounds teach nothing; the model can't learn what lies far back. Nothing is raised.

Example::

    for x in inputs:
        h = torch.tanh(0.1 * h + x)

Instead::

    an LSTM or GRU cell, a residual connection (`h = h + f(h, x)`), or a recurrent matrix near orthogonal

Limits: needs `--values stats`. A recurrent network forgets somewhat by nature, so the threshold is strict.

Sources: Pascanu et al., On the difficulty of training recurrent neural networks (2013).
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._elements import elements
from plait.rules._growth import growth
from plait.rules._rule import Finding
from plait.rules._words import at, number, says


def check(case: Case) -> Iterator[Finding | None]:
    """Loop by loop."""
    if not case.graph.backwards:
        return
    found = growth(case, elements(case))
    if found is None or not 0 < found.total < 1e-8 or found.factor > 0.2:
        return
    yield case.finding(
        f"the gradient shrinks to {found.factor:.2g} of itself in every round of `{found.header}`, to"
        f" {number(found.total)} over {found.rounds} rounds"
        f" ({says(case.graph, found.node)}{at(case.site(found.node))}).",
        "The early rounds get next to no gradient: what lies that far back is not learned.",
        "Use a gated cell (LSTM, GRU) or a residual connection, or a recurrent matrix near orthogonal.",
        [found.node],
        ("shrinks", case.site(found.node)),
        factor=found.factor,
        rounds=found.rounds,
    )
