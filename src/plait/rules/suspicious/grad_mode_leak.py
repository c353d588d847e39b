"""Gradients are off for code that did not switch them off, because a generator paused inside of no_grad.

What it finds: operations on what is trained that ran without gradients while the switch stood in a generator that was
paused at its `yield`.

Why it matters: gradient mode belongs to the thread. What the loop body computes has no graph, and nothing says so.

Example::

    def batches():
        with torch.no_grad():
            for x in data:
                yield normalise(x)       # gradients stay off in the loop that asks for the batches

Instead::

    def batches():
        for x in data:
            with torch.no_grad():
                x = normalise(x)
            yield x

Limits: context managers written as generators are meant and silent.

Sources: pytorch/pytorch#49017, #31792.
"""

from collections.abc import Iterator

from plait.graph import ModeChange, Node, Region
from plait.rules._case import Case, Run
from plait.rules._rule import Finding
from plait.rules._words import at, says


def check_run(run: Run) -> Iterator[Finding]:
    """Every switch of the run and what ran under it outside of its function, in later steps too."""
    paused: tuple[Case, ModeChange, Region] | None = None
    done = set()
    for _, case in run.sequence():
        graph = case.graph
        for index, mode in enumerate(graph.modes):
            if mode.enabled:
                paused = None
                continue
            if mode.site is not None:
                frame = _frame(case, mode.region)
                paused = (case, mode, frame) if frame is not None and _paused(case, frame) else None
            if paused is None or paused[1].site in done:
                continue
            home, switch, frame = paused
            end = next((each.after for each in graph.modes[index + 1 :] if each.enabled), len(graph.nodes))
            victim = next(
                (node for node in graph.nodes[mode.after : end]
                 if node.cut in ("no_grad", "inference_mode") and not node.grad_mode
                 and not _inside(case, node, home, frame)
                 and not _switched_again(case, mode, node.id)), None,
            )  # fmt: skip
            if victim is not None:
                done.add(switch.site)
                yield from _finding(case, victim, home, switch, frame)


def _inside(case: Case, node: Node, home: Case, frame: Region) -> bool:
    """Whether a node ran inside of the function that switched (known by its place in a later step)."""
    return any(
        region.kind == "frame" and (region.id == frame.id if case is home else (region.label, region.line) == (
            frame.label, frame.line))
        for region in case.regions_above(node.region)
    )  # fmt: skip


def _finding(case: Case, victim: Node, home: Case, mode: ModeChange, frame: Region) -> Iterator[Finding]:
    site, where = home.site(mode), case.site(victim)
    found = case.finding(
        f"{says(case.graph, victim)}{at(where)} ran with gradients off: `{frame.label}` switched them"
        f" off{at(site)} and is"
        " paused at its `yield`.",
        "What was computed there has no graph, so the parameters in it get no gradient from it.",
        "End the block before the `yield`: gradient mode belongs to the thread, not to the generator.",
        [victim],
        ("switched", site),
        ("without", where),
    )
    if found is not None:
        yield found


def _frame(case: Case, region: int | None) -> Region | None:
    return next((each for each in case.regions_above(region) if each.kind == "frame"), None)


def _paused(case: Case, frame: Region) -> bool:
    """Whether the function is run by a `for` or by `next`: then it is a generator."""
    if frame.site is None:
        return False
    site = case.graph._site_by_id.get(frame.site)
    if site is None:
        return False
    text = site.expression
    return site.header or text.startswith(("next(", "for ")) or " for " in text


def _switched_again(case: Case, mode: ModeChange, node: int) -> bool:
    return any(mode.moment < each.moment and not each.enabled and each.after <= node for each in case.graph.modes)
