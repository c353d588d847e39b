"""A loop has another number of rounds for every size of its input.

What it finds: loops over tensors that ran with different numbers of rounds, and how many there were.

Why it matters: `torch.compile` unrolls the loop and compiles once for each number, up to its limit of 8, and then runs
without compiling; `jit.trace` keeps the number of the example and cuts longer inputs off.

Example::

    for t in range(x.shape[0]):
        h = cell(x[t], h)

Instead::

    a fused layer (`nn.LSTM`), padding to a few sizes, or plait.batch

Limits: loops whose rounds a value of a tensor decides are reported as decisions.

Sources: pytorch/pytorch#115626, #50688.
"""

from collections.abc import Iterator

from plait.graph import Region, Site
from plait.rules._case import Case, Run
from plait.rules._rule import Finding, Where
from plait.rules._words import code, leaves_loop, listed, plural


def check_run(run: Run) -> Iterator[Finding]:
    """Every loop of the source."""
    trips: dict[tuple[str, int, str], dict[int, int]] = {}
    where: dict[tuple[str, int, str], Site] = {}
    steps: dict[tuple[str, int, str], list[int]] = {}
    for case in run.cases:
        for region in case.graph.regions:
            if region.kind != "loop" or region.trips is None or region.id not in case.loops:
                continue
            site = _site(case, region)
            if site is None or site.function == "<module>" or _decides(case, region) or _holds_steps(case, region):
                continue
            key = (site.file, region.line, region.label)
            where.setdefault(key, site)
            mine = trips.setdefault(key, {})
            mine[len(case.loops[region.id])] = mine.get(len(case.loops[region.id]), 0) + 1
            steps.setdefault(key, []).extend(case.steps)
    for key, counts in trips.items():
        if len(counts) < 2:
            continue
        file, line, label = key
        many = len(counts)
        after = " and runs the rest without compiling" if many > 8 else ""
        yield run.finding(
            f"{code(label)} at {Where('', file, line)} ran {listed([str(each) for each in sorted(counts)], 6)} rounds:"
            f" {plural(many, 'number')} of rounds.",
            f"`torch.compile` compiles once for each, {min(many, 8)} times here{after}; `jit.trace` keeps the"
            " number of its"
            " example.",
            "Use a fused layer, pad to a few sizes, or run the loop for one example and batch it with `plait.batch`.",
            [Where("loop", file, line, label)],
            steps=sorted(set(steps[key])),
            different=many,
        )


def _site(case: Case, loop: Region) -> Site | None:
    for node in case.loops[loop.id][0]:
        site = case.site(node)
        while site is not None:
            if any(each.line == loop.line for each in site.loops):
                return site
            frame = next((each for each in case.regions_above(node.region) if each.kind == "frame"), None)
            site = None if frame is None or frame.site is None else case.graph._site_by_id.get(frame.site)
            break
        if site is not None and any(each.line == loop.line for each in site.loops):
            return site
    return None


def _decides(case: Case, loop: Region) -> bool:
    inside = {region.id for region in case.graph.regions if region.parent == loop.id}
    return any(
        decision.region in inside and (site := case.site(decision)) is not None and site.test is not None
        and (site.test.kind == "while" or leaves_loop(site.test))
        for decision in case.graph.decisions
    )  # fmt: skip


def _holds_steps(case: Case, loop: Region) -> bool:
    inside = {region.id for region in case.graph.regions if region.parent == loop.id}
    return any(
        each in inside for each in [*(b.region for b in case.graph.backwards), *(e.region for e in case.graph.events)]
    ) or _at_end(case, loop)


def _at_end(case: Case, loop: Region) -> bool:
    """Whether the step ends inside of the loop: then it is the loop around the steps."""
    last = max((node.id for node in case.graph.nodes if node.kind == "op"), default=-1)
    rounds = case.loops[loop.id]
    return bool(rounds[-1]) and rounds[-1][-1].id == last and bool(case.graph.backwards) and len(rounds) == 1
