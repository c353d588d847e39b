"""The graph of each step contains the graphs of all steps before.

What it finds: a state (hidden state, buffer, running value) that is carried from step to step without a cut while
backward walks through it with the graphs kept.

Why it matters: every step is slower than the last, and memory climbs.

Example::

    for x in batches:
        h = cell(x, h)
        loss(h).backward(retain_graph=True)

Instead::

    for x in batches:
        h = cell(x, h.detach())
        loss(h).backward()

Limits: at least three steps in a row.

Sources: pytorch/pytorch#2769.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._chains import chains
from plait.rules._rule import Finding, Where
from plait.rules._words import at, name, says


def check_run(run: Run) -> Iterator[Finding]:
    """Values that go from step to step."""
    for chain in chains(run):
        if len(chain.steps) < 2 or chain.last is None:
            continue
        if len(chain.steps) < 3 and not (chain.walked and chain.retained):
            continue
        if chain.only_adds and not chain.walked:
            continue  # accumulated-loss says it
        case, node = chain.last
        if chain.walked and any(event.kind == "error" for event in case.graph.events):
            continue  # the error says it
        site, what = case.site(node), name(case.graph, node.outputs[0])
        backward = case.site(case.graph.backwards[-1]) if case.graph.backwards else None
        walks = "each backward pass walks all of them" if chain.walked else "they are all kept alive"
        yield run.finding(
            f"{what}, made by {says(case.graph, node)}{at(site)}, carries its graph over"
            f" {len(chain.steps) + 1:,} steps:"
            " each is built on the one before.",
            f"The graph holds every earlier step, {walks}, and each step costs more than the last.",
            f"Cut it at the border of the step: {what} `.detach()`, before it is used again"
            + (f" (and `retain_graph=True`{at(backward)} is then not needed)." if chain.retained else "."),
            [Where.of("made", site), Where.of("backward", backward)],
            steps=chain.steps,
            graph=case.number,
            nodes=[node.id],
            chain=len(chain.steps) + 1,
        )
