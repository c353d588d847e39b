"""The leaves of a run: who owns each, where it is used, whether a backward pass ever reached it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from plait.rules._case import Case, Run


@dataclass(eq=False)
class Leaf:
    """A leaf that asks for gradients, followed over the steps. `uses` are (graph, first node that uses it with
    gradients on); `used_without` tells that it was used with gradients off."""

    number: int
    name: str | None
    shape: str
    module: str | None
    holder: str | None
    optimizer: str | None
    site: int | None
    registered: bool
    uses: list[tuple[Case, int]] = field(default_factory=list)
    used_without: bool = False
    reached: list[Case] = field(default_factory=list)


def leaves(run: Run) -> list[Leaf]:
    """All leaves of a run; worked out once."""
    kept: list[Leaf] | None = getattr(run, "_leaves", None)
    if kept is None:
        kept = _read(run)
        run._leaves = kept  # type: ignore[attr-defined]
    return kept


def _read(run: Run) -> list[Leaf]:
    try:
        rows = run.recording._all(
            "SELECT id, name, shape, module, holder, optimizer, site, registered FROM leaf ORDER BY id"
        )
        bindings = run.recording._all("SELECT graph, leaves FROM binding ORDER BY rowid")
    except Exception:  # a file from before leaves were kept
        return []
    found = {row[0]: Leaf(*row[:7], bool(row[7])) for row in rows}
    looked_at = set(run.graphs)
    for graph, text in bindings:
        if graph not in looked_at:
            continue
        case = run.case(graph)
        inputs = [node for node in case.graph.nodes if node.kind == "input"]
        for node, number in zip(inputs, json.loads(text)):
            leaf = found.get(number)
            if leaf is None:
                continue
            value = node.outputs[0]
            for user in case.leaf_users.get(value, ()):
                each = case.graph.nodes[user]
                if each.writes:
                    continue
                if any(case.graph.values[out].requires_grad for out in each.outputs) and each.grad_mode:
                    leaf.uses.append((case, user))
                    break
                leaf.used_without = True
            if value in case.reached_leaves:
                leaf.reached.append(case)
    return list(found.values())
