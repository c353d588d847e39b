"""Values that carry their graph from step to step: which, through how many steps, and whether backward walks it."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case, Run

ADDITIONS = {"add", "add_", "sub", "sub_", "radd", "rsub", "mul", "mul_", "lerp", "div", "rmul"}


@dataclass(eq=False)
class Chain:
    """The same place makes, in steps one after the other, a value from the value that it made the step before."""

    site: int
    steps: list[int] = field(default_factory=list)
    last: tuple[Case, Node] | None = None
    walked: bool = False  # some backward pass went through it
    retained: bool = False
    only_adds: bool = True
    nbytes: int = 0


def chains(run: Run) -> list[Chain]:
    """The chains of at least three steps, the longest first; worked out once."""
    kept: list[Chain] | None = getattr(run, "_chains", None)
    if kept is None:
        kept = _read(run)
        run._chains = kept  # type: ignore[attr-defined]
    return kept


def _read(run: Run) -> list[Chain]:
    open_: dict[int, Chain] = {}
    done: list[Chain] = []
    links: dict[int, dict[int, tuple[Node, bool, bool, bool]]] = {}
    for step, case in run.sequence():
        if case.number not in links:
            links[case.number] = _links(case)
        found = links[case.number]
        for site in [each for each in open_ if each not in found]:
            chain = open_[site]
            if step.kind == "train" or step.id - chain.steps[-1] > 2:
                done.append(open_.pop(site))
        for site, (node, walked, retained, adds) in found.items() if step.kind == "train" else ():
            chain = open_.setdefault(site, Chain(site))
            chain.steps.append(step.id)
            chain.last = (case, node)
            chain.walked |= walked
            chain.retained |= retained
            chain.only_adds &= adds
    return sorted([*done, *open_.values()], key=lambda each: -len(each.steps))


def _links(case: Case) -> dict[int, tuple[Node, bool, bool, bool]]:
    """By site: the node that makes the next value, whether backward walks it, keeps it, and whether it only adds."""
    graph = case.graph
    found = {}
    roots = {graph.values[root].node for each in graph.backwards for root in each.roots}
    retained = any(each.retain_graph for each in graph.backwards)
    above = case.above(*roots) if roots and case.carried else set()
    for node, site in case.carried:
        flow = _grad_below(case, node.id)
        maker = next((graph.nodes[each] for each in sorted(flow, reverse=True) if graph.nodes[each].site == site), None)
        if maker is None or maker.id == node.id:
            continue
        between = (flow & case.above(maker.id)) - {node.id}
        adds = all(op_name(graph.nodes[each].op) in ADDITIONS for each in between)
        found[site] = (maker, node.id in above, retained, adds)
    return found


def _grad_below(case: Case, start: int) -> set[int]:
    """The nodes that a gradient path leads to."""
    values = case.graph.values
    seen, stack = {start}, [start]
    while stack:
        for user in case.users[stack.pop()]:
            node = case.graph.nodes[user]
            if user not in seen and node.cut is None and any(values[out].requires_grad for out in node.outputs):
                seen.add(user)
                stack.append(user)
    return seen
