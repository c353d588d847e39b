"""An update uses gradients that an earlier update had used already.

What it finds: optimizer steps, and updates written by hand, whose gradients still hold what the step before used,
because nobody reset them.

Why it matters: backward adds to `.grad`. Each step then follows the sum of all past gradients, and training drifts
away slowly without an error.

Example::

    for x, y in data:
        loss(model(x), y).backward()
        optimizer.step()

Instead::

    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

Limits: accumulation on purpose (several passes, then one step) is silent; one single such step in a long run is too.

Sources: pytorch/pytorch#47175; yastrebksv/TennisCourtDetector#7.
"""

from collections.abc import Iterator

from plait.graph import Site
from plait.rules._case import Run
from plait.rules._rule import Finding, Where
from plait.rules._words import at, plural


def check_run(run: Run) -> Iterator[Finding]:
    """Every update of the run, by its line."""
    seen: dict[Where, list[int]] = {}
    totals: dict[Where, int] = {}
    tensors: dict[Where, int] = {}
    passes: dict[Where, Site | None] = {}
    for case in run.cases:
        for event in case.graph.events:
            place = Where.of("update", case.site(event)) if event.kind in ("optimizer", "update") else None
            if place is None:
                continue
            totals[place] = totals.get(place, 0) + len(case.steps)
            stale = dict(event.facts).get("stale", 0)
            if isinstance(stale, int) and stale > 0:
                seen.setdefault(place, []).extend(case.steps)
                tensors[place] = max(tensors.get(place, 0), stale)
                before = [each for each in case.graph.backwards if each.after <= event.after]
                passes.setdefault(place, case.site(before[-1]) if before else None)
    for place, steps in seen.items():
        if len(steps) < 2 and totals[place] > 3:
            continue
        yield run.finding(
            f"the update uses gradients that hold what earlier updates had used: {plural(tensors[place], 'tensor')} in"
            f" {len(steps):,} of {plural(max(totals[place], len(steps)), 'step')}.",
            f"backward(){at(passes[place])} adds to `.grad`, and nothing resets it between two updates, so each update"
            " follows the sum of all past gradients.",
            "Call `optimizer.zero_grad()` before backward() in each step (by hand: set `.grad` to None).",
            [place, Where.of("backward", passes[place])],
            steps=sorted(steps),
            updates=len(steps),
        )
