"""A running total keeps the graph of every step.

What it finds: a sum over steps of values that have a graph (`total += loss`), which no backward pass ever walks.

Why it matters: the total is a graph of all steps so far. Memory grows until it is used up, and it looks like a leak.

Example::

    total = total + loss

Instead::

    total = total + loss.item()          # or loss.detach()

Limits: a sum within one step, that backward walks, is silent.

Sources: pytorch/pytorch#1840; google/brax#152.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._chains import chains
from plait.rules._rule import Finding, Where
from plait.rules._words import at, name, says


def check_run(run: Run) -> Iterator[Finding]:
    """Values that go from step to step."""
    for chain in chains(run):
        if len(chain.steps) < 3 or chain.walked or not chain.only_adds or chain.last is None:
            continue
        case, node = chain.last
        site, what = case.site(node), name(case.graph, node.outputs[0])
        yield run.finding(
            f"{what} adds up values with their graphs over {len(chain.steps):,} steps"
            f" ({says(case.graph, node)}{at(site)}).",
            "It keeps the graph of every step that went into it, so memory grows with each step.",
            "Add the number instead: `.item()`, or `.detach()` to stay on the device.",
            [Where.of("added", site)],
            steps=chain.steps,
            graph=case.number,
            nodes=[node.id],
            chain=len(chain.steps),
        )
