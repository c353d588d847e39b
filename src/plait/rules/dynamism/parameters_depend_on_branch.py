"""Which parameters get a gradient depends on a branch.

What it finds: calls of one model in which different parameters were used, and the decision that made the difference.

Why it matters: DistributedDataParallel waits for every parameter in every step: it stops with an error, or hangs when
ranks differ; `static_graph=True` promises that the set never changes.

Example::

    return self.a(x) if x.sum() > 0 else self.b(x)

Instead::

    out = self.a(x) if x.sum() > 0 else self.b(x)
    return out + 0 * sum(p.sum() for p in self.parameters())       # or find_unused_parameters=True

Limits: without DistributedDataParallel it is no fault; it only says what would be.

Sources: pytorch/pytorch#43259, #90171.
"""

from collections.abc import Iterator

from plait.graph import Decision
from plait.rules._case import Case, Run
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, listed


def check_run(run: Run) -> Iterator[Finding]:
    """Every decision inside of a model."""
    arms: dict[int, dict[bool, tuple[set[str], Case]]] = {}
    for case in run.cases:
        for place, decision in enumerate(case.graph.decisions):
            if decision.outcome is None or decision.site is None:
                continue
            site = case.site(decision)
            if site is None or site.test is None or site.test.kind not in ("if", "conditional"):
                continue
            names = _used_after(case, decision, case.graph.decisions[place + 1 :])
            if names:
                old = arms.setdefault(decision.site, {}).get(decision.outcome)
                arms[decision.site][decision.outcome] = (names | (old[0] if old else set()), case)
    for number, outcomes in arms.items():
        if len(outcomes) < 2:
            continue
        (yes, case), (no, _) = outcomes[True], outcomes[False]
        if not yes - no or not no - yes:
            continue
        site = run.recording.site(number)
        assert site.test is not None
        ddp = any(scope.module == "DistributedDataParallel" for each in run.cases for scope in each.graph.scopes)
        yield run.finding(
            f"the decision {code(site.test.expression)}{at(site)} chooses which parameters are trained: "
            f"{_names(yes - no)} if it is True, {_names(no - yes)} if not.",
            ("DistributedDataParallel waits" if ddp else "Under DistributedDataParallel it would wait")
            + " for the parameters that a step did not use, and ranks that decide differently hang.",
            "Use all parameters in every call (add `0 * parameter.sum()`), or `find_unused_parameters=True`"
            " with one forward"
            " a step and without `static_graph`.",
            [Where.of("decision", site)],
            steps=case.steps,
            graph=case.number,
            nodes=[case.maker(case.graph.decisions[0].value).id],
        )


def _used_after(case: Case, decision: Decision, later: tuple[Decision, ...]) -> set[str]:
    """The parameters that the chosen arm used, up to the next decision at the same place."""
    graph = case.graph
    end = next((each.after for each in later if each.site == decision.site), len(graph.nodes))
    site = case.site(decision)
    assert site is not None and site.test is not None
    found = set()
    for node in graph.nodes[decision.after : end]:
        where = [case.site(node)]
        where += [graph._site_by_id.get(r.site) for r in case.regions_above(node.region) if r.site is not None]
        if not any(
            each is not None
            and each.file == site.file
            and any((b.line, b.column) == (site.test.line, site.test.column) for b in each.branches)
            for each in where
        ):
            continue
        for edge in node.inputs:
            value = graph.values[edge.value]
            if value.leaf and value.requires_grad and value.name:
                found.add(value.name)
    return found


def _names(names: set[str]) -> str:
    return listed([f"`{each}`" for each in sorted(names)])
