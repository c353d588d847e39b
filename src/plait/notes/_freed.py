"""Backward walked into a graph that an earlier pass has freed. Four mistakes give this one error.

* the same loss is walked twice: the forward ran once, outside the loop;
* a state was carried over the border of a step without a cut;
* stored results of an old forward are used again;
* two losses of one step share a part of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from plait.graph import Backward, Graph, Site
from plait.graph._walk import ancestors, backward_order
from plait.notes._words import at, code, failure, made, name, place, says
from plait.recording import Facts, Failure

CAUSE = "backward-through-freed-graph"


@dataclass(frozen=True)
class _Pass:
    """The pass that freed the graph, and whether its root and the failing one's have the same backward node."""

    window: int
    backward: Backward
    site: Site | None
    same_root: bool


def walked_twice(facts: Facts) -> Failure | None:
    """Which of the four it was."""
    freed = [(each.window, each.node) for each in facts.broken if each.freed]
    if not freed and not (facts.older and facts.kind in ("backward", "grad") and _carried(facts)):
        return None
    failing = facts.graph.backwards[-1] if facts.graph.backwards else None
    if failing is None or not failing.roots:
        return None
    earlier = _freed_by(facts, set(freed), failing)
    crossing = _carried(facts)
    if earlier is None and not crossing:
        return None
    root_is_old = failing.roots[0] in crossing
    if earlier.same_root if earlier is not None else root_is_old:
        return _same_loss(facts, failing, earlier)
    if crossing and not root_is_old:
        return _old_value(facts, failing, crossing, earlier)
    assert earlier is not None
    return _two_losses(facts, failing, earlier, set(freed))


def _freed_by(facts: Facts, freed: set[tuple[int, int]], failing: Backward) -> _Pass | None:
    """The last pass before the failing one that walked one of the freed nodes and did not keep the graph."""
    current = len(facts.windows) - 1
    target = _grad_fn(facts, current, failing.roots[0])
    for window in range(current, -1, -1):
        graph = facts.windows[window].graph
        for backward in reversed(graph.backwards):
            if backward.retain_graph or (window == current and backward.id == failing.id):
                continue
            walked = _walk(facts, window, backward)
            if walked & freed or (target in walked and target is not None):
                mine = _origin(facts, current, failing.roots[0])
                same = any(_origin(facts, window, each) == mine for each in backward.roots)
                return _Pass(window, backward, graph.site_of(backward), same)
    return None


def _origin(facts: Facts, window: int, value: int) -> tuple[int, int]:
    """The value itself, in the window in which it was made."""
    return facts.windows[window].origins.get(value, (window, value))


def _grad_fn(facts: Facts, window: int, value: int) -> tuple[int, int] | None:
    while True:
        origin = facts.windows[window].origins.get(value)
        if origin is None:
            grad_fn = facts.windows[window].graph.values[value].grad_fn
            return None if grad_fn is None else (window, grad_fn)
        window, value = origin


def _walk(facts: Facts, window: int, backward: Backward) -> set[tuple[int, int]]:
    """Every backward node of a pass, through carried values into earlier windows as well."""
    found: set[tuple[int, int]] = set()
    stack = [(window, value) for value in backward.roots]
    seen = set(stack)
    while stack:
        index, value = stack.pop()
        graph = facts.windows[index].graph
        origin = facts.windows[index].origins.get(value)
        if origin is not None:
            if origin not in seen:
                seen.add(origin)
                stack.append(origin)
            continue
        found.update((index, node) for node in backward_order(graph, value))
        for node in ancestors(graph, graph.values[value].node):
            for each in node.outputs if node.kind == "input" else ():
                if each in facts.windows[index].origins and (index, each) not in seen:
                    seen.add((index, each))
                    stack.append((index, each))
    return found


def _carried(facts: Facts) -> list[int]:
    """The values from before this window through which the failing pass left it."""
    graph = facts.graph
    if not graph.backwards:
        return []
    current = len(facts.windows) - 1
    old = {place for place in facts.reached if place[0] != current}
    found: dict[int, None] = {}
    for root in graph.backwards[-1].roots:
        node = graph.values[root].node
        for each in (*ancestors(graph, node), graph.nodes[node]):
            value = each.outputs[0] if each.outputs else None
            if each.kind != "input" or each.op != "carried" or value is None or not graph.values[value].requires_grad:
                continue
            origin = facts.windows[-1].origins.get(value)
            if origin is None or _grad_fn(facts, *origin) in old or facts.older:
                found[value] = None
    return list(found)


def _same_loss(facts: Facts, failing: Backward, earlier: _Pass | None) -> Failure:
    graph = facts.graph
    value = failing.roots[0]
    what, born, here = name(graph, value), _born(facts, value), facts.site
    first = None if earlier is None else earlier.site
    loop = here is not None and bool(here.loops) and (first is None or _same(first, here))
    if loop and here is not None:
        fact = (
            f"{what}{_made(born)} is walked again in each round of {code(here.loops[-1].header)}, but its graph was"
            f" built once, outside."
        )
        cure = f"Move the forward that makes {what} into the loop, so that each round has a graph of its own."
    else:
        fact = f"{what}{_made(born)} was walked{at(first)} already, and{at(here)} it is walked again."
        cure = (
            "Run the forward again before the second pass, or sum what is to be differentiated and call it once"
            " (`retain_graph=True` in the first call keeps the memory)."
        )
    return failure(
        facts, CAUSE, fact, f"The first pass{at(first)} freed what the graph had saved.", cure,
        place(here, "backward"), place(born, "made"), place(first, "freed"),
    )  # fmt: skip


def _old_value(facts: Facts, failing: Backward, crossing: list[int], earlier: _Pass | None) -> Failure:
    graph = facts.graph
    value = crossing[-1]
    what, born = name(graph, value), _born(facts, value)
    user = next((node for node in graph.nodes if any(edge.value == value for edge in node.inputs)), None)
    used = None if user is None else graph.site_of(user)
    freed = None if earlier is None else earlier.site
    after = f"; {says(freed, 'a backward pass')}{at(freed)} freed that graph" if freed is not None else ""
    if _made_again(graph, born):
        # The line that made it runs in this step as well: it is a state that goes from step to step.
        label = graph.values[value].name
        cut = f"`{label} = {label}.detach()`" if label and label.isidentifier() else f"{what} with `.detach()`"
        return failure(
            facts, CAUSE,
            f"`{facts.call}()`{at(facts.site)} walked into the graph of an earlier step: {what}, made{at(born)} then,"
            f" is used{at(used)} now.",
            f"Each step's graph is freed by its own backward pass{after}.",
            f"Cut it at the border of the step: {cut} before {_line(used)}. `retain_graph=True` would make each step"
            " slower than the last.",
            place(used, "used"), place(born, "made"), place(facts.site, "backward"), place(freed, "freed"),
        )  # fmt: skip
    many = f" (and {len(crossing) - 1} more like it)" if len(crossing) > 1 else ""
    return failure(
        facts, CAUSE,
        f"{what} was made{at(born)} in an earlier step{many} and is used again{at(used)}, but its graph is gone.",
        f"A stored result keeps its old graph, and a graph can be walked once{after}.",
        "Store the inputs and compute it again for each update, or store `.detach()`ed values if no gradient should"
        " pass.",
        place(used, "used"), place(born, "made"), place(facts.site, "backward"), place(freed, "freed"),
    )  # fmt: skip


def _two_losses(facts: Facts, failing: Backward, earlier: _Pass, freed: set[tuple[int, int]]) -> Failure:
    graph = facts.graph
    window, node = next(each for each in facts.reached if each in freed)
    shared = facts.windows[window].graph
    maker = shared.nodes[shared.backward_nodes[node].node]
    site = shared.site_of(maker)
    what = says(site, "a part of the graph")
    other = name(facts.windows[earlier.window].graph, earlier.backward.roots[0])
    mine = name(graph, failing.roots[0])
    if maker.op.startswith("compiled ") or maker.op == "CompiledFunction":
        fact = (
            f"{mine} and {other} come out of one compiled call ({what}{at(site)}), which is a single node of the graph."
        )
        cure = "Compile the two parts separately, or add the losses and call backward() once."
    else:
        fact = f"{mine} and {other} share a part of the graph ({what}{at(site)})."
        cure = f"Add them and call backward() once, or give `retain_graph=True` to the first{at(earlier.site)}."
    return failure(
        facts, CAUSE, fact,
        f"The pass{at(earlier.site)} freed the shared part, and the one{at(facts.site)} needs it.", cure,
        place(facts.site, "backward"), place(earlier.site, "freed"), place(site, "shared"),
    )  # fmt: skip


def _born(facts: Facts, value: int) -> Site | None:
    """Where a value was made, in the window in which it was made."""
    found = made(facts.graph, value)
    origin = facts.windows[-1].origins.get(value)
    if origin is not None:
        return made(facts.windows[origin[0]].graph, origin[1]) or found
    return found


def _made_again(graph: Graph, born: Site | None) -> bool:
    """Whether the place that made it runs in this graph too."""
    if born is None:
        return True  # made before the recording began: a state is by far the likelier
    return any(node.kind == "op" and node.site is not None and _same(graph.site_of(node), born) for node in graph.nodes)


def _same(one: Site | None, other: Site | None) -> bool:
    if one is None or other is None:
        return False
    return (one.file, one.line, one.column, one.function) == (other.file, other.line, other.column, other.function)


def _made(born: Site | None) -> str:
    return f", made{at(born)}," if born is not None else ""


def _line(site: Site | None) -> str:
    return "it is used" if site is None else at(site).removeprefix(" at ")
