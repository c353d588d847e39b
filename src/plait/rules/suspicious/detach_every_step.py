"""The state of a loop is cut in every round, so nothing learns across rounds.

What it finds: a loop of at least three rounds inside one step whose state goes from round to round only through a
`detach` (or `.data`), with parameters that all rounds share.

Why it matters: the recurrent model trains like a model of one step. Nothing is raised.

Example::

    for x in inputs:
        h = cell(x, h.detach())
    loss(h).backward()

Instead::

    h = h.detach()               # once, at the border of the batch
    for x in inputs:
        h = cell(x, h)
    loss(h).backward()

Limits: rounds with a backward pass of their own are truncated on purpose and silent, and so are loops that stay
connected through another value, and loops over different layers (training layer by layer).

Sources: yhs968/pyGRU4REC#8; OpenNMT/OpenNMT-py#1148.
"""

import itertools
from collections.abc import Iterator

from plait.graph import Node
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, plural, says


def check(case: Case) -> Iterator[Finding | None]:
    """Every loop of the step."""
    graph = case.graph
    if not graph.backwards:
        return
    for loop, rounds in case.loops.items():
        if len(rounds) < 3:
            continue
        for site in _cut_sites(rounds):
            cuts = [next((node for node in each if node.site == site and node.cut in ("detach", "data")), None)
                    for each in rounds]  # fmt: skip
            if sum(cut is not None for cut in cuts) < len(rounds) - 1:
                continue
            if not _carries(case, cuts) or not _only_way(case, rounds, cuts) or not _shared_leaf(case, rounds):
                continue
            reached = sum(any(node.id in case.reached_nodes for node in each) for each in rounds)
            if not reached:
                continue
            cut = next(each for each in cuts if each is not None)
            where, header = case.site(cut), graph.regions[loop].label
            window = "each round is trained alone" if reached > 1 else "the gradient reaches the last round only"
            yield case.finding(
                f"`{header}` ran {plural(len(rounds), 'round')}, and its state is cut in every one of them by"
                f" {says(graph, cut)}{at(where)}.",
                f"{window[0].upper()}{window[1:]}: nothing is learned across rounds.",
                "Cut the state once before the loop (at the border of a batch), or every k rounds, not in each.",
                [each for each in cuts if each is not None], ("cut", where),
                rounds=len(rounds), connected=1,
            )  # fmt: skip
            break


def _cut_sites(rounds: list[list[Node]]) -> list[int]:
    return list(dict.fromkeys(
        node.site for node in rounds[1]
        if node.cut in ("detach", "data") and node.site is not None and not node.in_backward
    ))  # fmt: skip


def _carries(case: Case, cuts: list[Node | None]) -> bool:
    """Whether what is cut in a round comes from what was cut in the round before."""
    found = [each for each in cuts if each is not None]
    return all(after.id in case.below(before.id) for before, after in itertools.pairwise(found))


def _only_way(case: Case, rounds: list[list[Node]], cuts: list[Node | None]) -> bool:
    """Whether no gradient path leads from what is cut in a round back into an earlier round."""
    where = {node.id: index for index, each in enumerate(rounds) for node in each}
    for cut in cuts[2:]:
        if cut is None:
            continue
        made = [edge.value for edge in cut.inputs if case.graph.values[edge.value].requires_grad]
        if not made:
            return False
        born = {where[node] for value in made if (node := case.graph.values[value].node) in where}
        if not born:
            return False
        for value in made:
            for number in case.reach(value).nodes:
                node = case.graph.backward_nodes[number].node
                if case.graph.nodes[node].kind == "op" and where.get(node, max(born)) < min(born):
                    return False
    return True


def _shared_leaf(case: Case, rounds: list[list[Node]]) -> bool:
    """Whether the first rounds use the same leaf."""

    def used(nodes: list[Node]) -> set[int]:
        return {case.first(edge.value) for node in nodes for edge in node.inputs
                if case.graph.values[edge.value].leaf and case.graph.values[edge.value].requires_grad}  # fmt: skip

    return bool(used(rounds[0]) & used(rounds[1]) & used(rounds[-1]))
