"""The leaves of a run: who owns each, where it is used, whether a backward pass ever reached it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from plait.rules._case import Case, Run


@dataclass(eq=False)
class Leaf:
    """A leaf that asks for gradients, followed over the steps. `uses` are (graph, first node that uses it with
    gradients on), `used_without` the same with gradients off. `unseen`: it took part in a graph that was not looked
    at."""

    number: int
    name: str | None
    shape: str
    module: str | None
    holder: str | None
    optimizer: str | None
    site: int | None
    registered: bool
    uses: list[tuple[Case, int]] = field(default_factory=list)
    used_without: list[tuple[Case, int]] = field(default_factory=list)
    unseen: bool = False
    reached: list[Case] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)  # by graph: the value that it is there


def leaves(run: Run) -> list[Leaf]:
    """All leaves of a run; worked out once."""
    kept: list[Leaf] | None = getattr(run, "_leaves", None)
    if kept is None:
        kept = _read(run)
        run._leaves = kept  # type: ignore[attr-defined]
    return kept


def _leaf(row: Any) -> Leaf:
    number, name, shape, module, holder, optimizer, site, registered = row
    return Leaf(number, name, shape, module, holder, optimizer, site, bool(registered))


def _read(run: Run) -> list[Leaf]:
    try:
        rows = run.recording._all(
            "SELECT id, name, shape, module, holder, optimizer, site, registered FROM leaf ORDER BY id"
        )
        bindings = run.recording._all("SELECT graph, leaves FROM binding ORDER BY rowid")
    except Exception:  # a file from before leaves were kept
        return []
    found = {row[0]: _leaf(row) for row in rows}
    looked_at = set(run.graphs)
    for graph, text in bindings:
        if graph not in looked_at:
            for number in json.loads(text):
                if number in found:
                    found[number].unseen = True
            continue
        case = run.case(graph)
        inputs = [node for node in case.graph.nodes if node.kind == "input"]
        for node, number in zip(inputs, json.loads(text)):
            leaf = found.get(number)
            if leaf is None:
                continue
            value = node.outputs[0]
            leaf.values[graph] = value
            users = [user for user in case.leaf_users.get(value, ()) if not case.graph.nodes[user].writes]
            on = next((user for user in users if _differentiable(case, user)), None)
            if on is not None:
                leaf.uses.append((case, on))
            elif users:
                leaf.used_without.append((case, users[0]))
            if value in case.reached_leaves:
                leaf.reached.append(case)
    _through_steps(run, list(found.values()))
    return list(found.values())


def _differentiable(case: Case, user: int) -> bool:
    node = case.graph.nodes[user]
    return node.grad_mode and any(case.graph.values[out].requires_grad for out in node.outputs)


def _through_steps(run: Run, known: list[Leaf]) -> None:
    """A pass may walk into the graph of an earlier step: what that step's value hangs on is reached as well."""
    sites: set[int] = set()
    for _ in range(3):
        before = len(sites)
        for case in run.cases:
            if not case.carried:
                continue
            graph = case.graph
            starts = [graph.values[root].node for each in graph.backwards for root in each.roots]
            starts += [node.id for node in graph.nodes if node.site in sites and node.kind == "op"]
            above = case.above(*starts) if starts else set()
            sites.update(site for node, site in case.carried if node.id in above)
        if len(sites) == before:
            break
    if not sites:
        return
    for leaf in known:
        if leaf.reached:
            continue
        for case, user in leaf.uses:
            below = case.below(user)
            made = [out for node in case.graph.nodes if node.site in sites and node.id in below for out in node.outputs]
            value = next((case.first(e.value) for e in case.graph.nodes[user].inputs
                          if case.first(e.value) in case.leaf_users and user in case.leaf_users[case.first(e.value)]
                          and _is_leaf(case, leaf, case.first(e.value))), None)  # fmt: skip
            if value is not None and any(value in case.reach(out).leaves for out in made):
                leaf.reached.append(case)
                break


def _is_leaf(case: Case, leaf: Leaf, value: int) -> bool:
    return leaf.values.get(case.number) == value
