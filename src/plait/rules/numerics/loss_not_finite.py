"""The loss is NaN or infinite, and the recording does not hold the numbers that would say why.

What it finds: the first step whose loss is not finite.

Why it matters: everything after it is lost. Where it was born is a question of one more run.

Example::

    loss = torch.log(probability)          # 0 for one example

Instead::

    loss = torch.log(probability.clamp_min(1e-12))

Limits: silent where `nan-born-in-backward` found the place.

Sources: PyTorch forums on NaN losses.
"""

import math
from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._elements import elements
from plait.rules._rule import Finding, Where
from plait.rules._words import at, plural
from plait.rules.numerics.nan_born_in_backward import _from_samples, _from_stats


def check_run(run: Run) -> Iterator[Finding]:
    """The steps, in order."""
    bad = [step for step in run.steps if step.loss is not None and not math.isfinite(step.loss)]
    if not bad:
        return
    first = next((step for step in bad if step.graph in run.graphs), None)
    if first is None or first.graph is None:
        return
    case = run.case(first.graph)
    known = elements(case)
    if _from_samples(case, known) or _from_stats(case, known) or not case.graph.backwards:
        return
    site = case.site(case.graph.backwards[-1])
    measured = run.recording.meta.get("values") == "stats"
    more = (
        "The gradients were measured; look at the values of this step."
        if measured
        else ("Record again with `plait run --values stats`: it names the operation where the first NaN was born.")
    )
    yield run.finding(
        f"the loss of step {first.id}, walked{at(site)}, is {first.loss}; {plural(len(bad), 'step')} of"
        f" {len(run.steps):,}"
        " in all.",
        "Every parameter that this loss reaches becomes NaN with the next update.",
        more,
        [Where.of("backward", site)],
        steps=[step.id for step in bad],
        graph=first.graph,
        first=first.id,
    )
