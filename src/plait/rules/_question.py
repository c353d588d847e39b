"""A question about one leaf: why is its gradient what it is."""

from __future__ import annotations

from plait._errors import NotFoundError
from plait.graph import Node
from plait.graph._walk import path
from plait.recording import Recording
from plait.rules._case import Case, Run
from plait.rules._explain import explain_recording
from plait.rules._findings import Findings
from plait.rules._leaves import Leaf, leaves
from plait.rules._rule import Finding, Where
from plait.rules._words import at, listed, plural, says


def explain_leaf(recording: Recording, number: int) -> Findings:
    """The path from a leaf to the losses that reach it, or where the path ends."""
    run = Run(recording)
    run.rule = ("gradient-of-leaf", "suspicious")
    leaf = next((each for each in leaves(run) if each.number == number), None)
    if leaf is None:
        raise NotFoundError("the recording does not know this tensor: it took part in no step as a leaf")
    what = f"`{leaf.name}`" if leaf.name else f"the leaf of shape {leaf.shape}"
    related = [
        each
        for each in explain_recording(recording, select=("correctness", "suspicious", "numerics"))
        if leaf.name is None or leaf.name in each.fact or each.rule in _ABOUT_ALL
    ]
    if leaf.reached:
        return Findings([_reached(run, leaf, what), *related])
    if not leaf.uses:
        why = "it was used with gradients off only" if leaf.used_without else "no recorded step used it"
        case = next((each for each in run.cases if each.graph.backwards), None)
        site = None if case is None else case.site(case.graph.backwards[-1])
        if case is None or site is None:
            raise NotFoundError(f"{what} has no gradient: {why}, and the recording has no backward pass")
        return Findings([run.finding(
            f"{what} has no gradient: {why}.", "A backward pass reaches only what the loss was computed from.",
            "Use it in the forward, with gradients on.", [Where.of("backward", site)], steps=case.steps,
        ), *related])  # fmt: skip
    case, user = leaf.uses[0]
    node = case.graph.nodes[user]
    cut = next((case.graph.nodes[each] for each in sorted(case.below(user)) if case.graph.nodes[each].cut), None)
    where = (
        f"the path ends at {says(case.graph, cut)}{at(case.site(cut))}"
        if cut is not None
        else ("what it makes reaches no loss that was walked")
    )
    return Findings([run.finding(
        f"{what} has no gradient: it is used by {says(case.graph, node)}{at(case.site(node))}, and {where}.",
        "No backward pass of the recording reached it.",
        "Lead the path from this line to the loss through differentiable operations.",
        [Where.of("cut", None if cut is None else case.site(cut)), Where.of("used", case.site(node))],
        steps=case.steps, graph=case.number, nodes=[user],
    ), *related])  # fmt: skip


_ABOUT_ALL = {"stale-gradient", "nan-born-in-backward", "gradient-explodes", "clip-of-nonfinite"}


def _reached(run: Run, leaf: Leaf, what: str) -> Finding:
    case = leaf.reached[0]
    nodes = _path(case, leaf)
    lines = [f"{says(case.graph, node)}{at(case.site(node))}" for node in nodes]
    total = sum(max(1, len(each.steps)) for each in leaf.reached)
    return run.finding(
        f"{what} got a gradient in {plural(total, 'step')}; the path to the loss: {listed(lines, 6)}.",
        "The gradient is the product of the slopes along this path, summed over all paths.",
        "Look at the sizes along it with `plait run --values stats`.",
        [Where.of("path", case.site(node)) for node in nodes],
        steps=case.steps,
        graph=case.number,
        nodes=[node.id for node in nodes],
        steps_reached=total,
    )


def _path(case: Case, leaf: Leaf) -> list[Node]:
    users = [user for each, user in leaf.uses if each is case]
    for user in users:
        for backward in case.graph.backwards:
            for root in backward.roots:
                found = path(case.graph, user, case.graph.values[root].node)
                if found:
                    return found
    return [case.graph.nodes[user] for user in users[:1]]
