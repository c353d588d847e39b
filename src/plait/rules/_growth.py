"""How the gradient changes from round to round of an unrolled loop."""

from __future__ import annotations

from dataclasses import dataclass

from plait.graph import Node
from plait.rules._case import Case
from plait.rules._elements import Elements, is_finite

FEWEST_ROUNDS = 6


@dataclass(frozen=True)
class Growth:
    """`factor` a round, `total` over all; against the direction of the program, as backward goes."""

    header: str
    rounds: int
    factor: float
    total: float
    node: Node


def growth(case: Case, known: Elements) -> Growth | None:
    """The loop in which the gradient changes most from the last round to the first; needs measured norms."""
    norms: dict[int, float] = {}
    for each in known.stats:
        if each.norm_in is not None and is_finite(each.norm_in):
            norms[each.node] = max(norms.get(each.node, 0.0), each.norm_in)
    if not norms:
        return None
    best: Growth | None = None
    for loop, rounds in case.loops.items():
        if len(rounds) < FEWEST_ROUNDS:
            continue
        for first in rounds[0]:
            series = [next((n.id for n in each if n.site == first.site and n.op == first.op), None) for each in rounds]
            found = [norms[each] for each in series if each is not None and each in norms and norms[each] > 0]
            if len(found) < FEWEST_ROUNDS or len(found) < len(rounds) - 1:
                continue
            # A state flows through it: each round comes from the one before.
            if series[0] is None or series[1] is None or series[1] not in case.below(series[0]):
                continue
            total = found[0] / found[-1]
            made = Growth(case.graph.regions[loop].label, len(found), total ** (1 / (len(found) - 1)), total, first)
            if best is None or abs(made.total) > abs(best.total):
                best = made
    return best
