"""backward() or grad() that can reach nothing, or starts from more than one number."""

from __future__ import annotations

from plait.graph import Decision, Graph, Node, Site
from plait.graph._walk import ancestors
from plait.notes._words import at, code, deciding, failure, made, name, place, says
from plait.recording import Facts, Failure

CAUSE = "loss-without-graph"
_SWITCHES = ("requires_grad_", "requires_grad__set__")
_FLOATING = ("f", "bf", "c")
_NUMBERS = ("item", "float", "int", "tolist", "numpy", "complex")
_CUTS = {
    "detach": "`detach` cuts it off from what made it",
    "data": "`.data` cuts it off from what made it",
    "copied as numbers": "it is a new tensor made from the numbers of others",
    "boolean result": "it is a comparison: true or false has no gradient",
    "integer result": "it is a whole number (an index, a count, a rounding): that has no gradient",
    "no_grad": "gradients are switched off there",
    "inference_mode": "gradients are switched off there",
    "not differentiable": "autograd has no gradient for it",
}
_CURES = {
    "detach": "Use the tensor itself where the loss is computed; keep `detach` for what is only looked at.",
    "data": "Use the tensor itself instead of `.data`.",
    "copied as numbers": "Join tensors with `torch.stack` or `torch.cat`, which keep the graph.",
    "boolean result": "Replace the comparison by something smooth (a sigmoid, a margin loss); keep it for reporting.",
    "integer result": "Compute the loss from the scores themselves (cross_entropy, softmax), not from their argmax.",
    "no_grad": "Compute the loss outside of the block that switches gradients off.",
    "inference_mode": "Compute the loss outside of the block that switches gradients off.",
    "not differentiable": "Use a differentiable operation there, or write its gradient as an `autograd.Function`.",
}


def nothing_to_reach(facts: Facts) -> Failure | None:
    """Where the path from the loss was cut, or which tensor should have asked for gradients."""
    if facts.kind not in ("backward", "grad") or facts.rooted or not facts.graph.backwards:
        return None
    graph = facts.graph
    root = next((each for each in graph.backwards[-1].roots if not graph.values[each].requires_grad), None)
    if root is None:
        return None
    node = graph.nodes[graph.values[root].node]
    above = [*ancestors(graph, node), node]
    for each in reversed(above):
        if each.op in _SWITCHES and each.cut is not None:
            return _frozen(facts, root, [other for other in above if other.op in _SWITCHES])
        if each.cut is not None:
            return _cut(facts, root, each)
    if node.kind == "input" and facts.windows[-1].origins.get(root) is not None:
        return _carried(facts, root)
    if (number := _number(graph, above)) is not None:
        return _from_number(facts, root, *number)
    if not any(each.inputs for each in above if each.kind == "op"):
        return _constant(facts, root, node)
    return _unmarked(facts, root, above)


def _cut(facts: Facts, root: int, node: Node) -> Failure:
    graph = facts.graph
    site = graph.site_of(node)
    cut = node.cut or ""
    mode = _mode(graph, node) if cut in ("no_grad", "inference_mode") else None
    since = f" (since{at(mode).replace(' at', '')})" if mode is not None and mode != site else ""
    return failure(
        facts, CAUSE,
        f"nothing that can be trained reaches {name(graph, root)}: the path ends at {says(site, node.op)}{at(site)},"
        f" where {_CUTS.get(cut, cut)}{since}.",
        f"`{facts.call}()`{at(facts.site)} has no graph to walk.",
        _CURES.get(cut, "Keep the path from the parameters to the loss in differentiable operations."),
        place(site, "cut"), place(mode, "mode"), place(facts.site, "backward"),
    )  # fmt: skip


def _frozen(facts: Facts, root: int, switches: list[Node]) -> Failure:
    graph = facts.graph
    site = graph.site_of(switches[0])
    names = list(dict.fromkeys(name(graph, node.outputs[0]) for node in switches if node.outputs))
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return failure(
        facts, CAUSE,
        f"{says(site, 'a call')}{at(site)} switched gradients off for everything that reaches {name(graph, root)}"
        f" ({shown}).",
        f"`{facts.call}()`{at(facts.site)} has nothing to give a gradient to.",
        "Leave at least one part of the model trainable, or skip backward() in this phase.",
        place(site, "cut"), place(facts.site, "backward"),
    )  # fmt: skip


def _carried(facts: Facts, root: int) -> Failure:
    window, value = facts.windows[-1].origins[root]
    site = made(facts.windows[window].graph, value)
    return failure(
        facts, CAUSE, f"{name(facts.graph, root)}, made{at(site)} in an earlier step, has no graph.",
        f"`{facts.call}()`{at(facts.site)} has nothing to walk.",
        "Compute it from the parameters in this step, with gradients on.",
        place(site, "made"), place(facts.site, "backward"),
    )  # fmt: skip


def _number(graph: Graph, above: list[Node]) -> tuple[Node, Decision] | None:
    """A tensor made from a Python number, and the read that gave such a number from a trained value."""
    for node in reversed(above):
        if node.kind != "op" or node.inputs:
            continue
        for decision in reversed(graph.decisions):
            if decision.after > node.id or decision.how not in _NUMBERS:
                continue
            value = graph.values[decision.value]
            source = graph.nodes[value.node]
            trained = value.requires_grad or source.cut is not None or any(
                graph.values[out].requires_grad for each in ancestors(graph, source) for out in each.outputs
            )  # fmt: skip
            if trained:
                return node, decision
    return None


def _from_number(facts: Facts, root: int, node: Node, decision: Decision) -> Failure:
    graph = facts.graph
    read, site = graph.site_of(decision), graph.site_of(node)
    return failure(
        facts, CAUSE,
        f"{name(graph, root)} is made{at(site)} from plain numbers: {says(read, f'`{decision.how}`')}{at(read)} took"
        " the value out of the graph.",
        f"A number has no graph, so `{facts.call}()`{at(facts.site)} can reach nothing.",
        "Stay with tensors until the loss is walked; read numbers only to print them.",
        place(read, "cut"), place(site, "made"), place(facts.site, "backward"),
    )  # fmt: skip


def _constant(facts: Facts, root: int, node: Node) -> Failure:
    graph = facts.graph
    site = graph.site_of(node)
    decision = deciding(graph, site, node.id)
    why, where = "", None
    if decision is not None:
        where = graph.site_of(decision)
        outcome = decision.outcome
        test = where.test.expression if where is not None and where.test is not None else ""
        why = f", after {code(test)}{at(where)} was {outcome}" if outcome is not None else f", chosen{at(where)}"
    if decision is None and node.kind == "op" and graph.values[root].dtype.startswith(_FLOATING):
        return _unmarked(facts, root, [node])
    return failure(
        facts, CAUSE,
        f"{name(graph, root)} is a constant in this run: {says(site, 'it')}{at(site)} uses nothing that can be"
        f" trained{why}.",
        f"`{facts.call}()`{at(facts.site)} has no graph to walk.",
        "Skip the step in this case, or return something tied to the parameters (`outputs.sum() * 0`).",
        place(site, "made"), place(where, "decision"), place(facts.site, "backward"),
    )  # fmt: skip


def _unmarked(facts: Facts, root: int, above: list[Node]) -> Failure:
    graph = facts.graph
    sources = [
        node for node in above
        if (node.kind == "input" or not node.inputs) and node.outputs
        and graph.values[node.outputs[0]].dtype.startswith(_FLOATING)
    ]  # fmt: skip
    frozen = [node for node in sources if node.op == "parameter"]
    if frozen:
        names = [name(graph, node.outputs[0]) for node in frozen]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return failure(
            facts, CAUSE,
            f"every parameter that reaches {name(graph, root)} is frozen ({shown}: `requires_grad` is False).",
            f"`{facts.call}()`{at(facts.site)} has nothing to give a gradient to.",
            "Leave at least one part of the model trainable, or skip backward() in this phase.",
            place(facts.site, "backward"),
        )  # fmt: skip
    if not sources:
        return failure(
            facts, CAUSE, f"no tensor that reaches {name(graph, root)} asks for gradients.",
            f"`{facts.call}()`{at(facts.site)} has no graph to walk.",
            "Make the tensor that is to be trained with `requires_grad=True`, before it is used.",
            place(facts.site, "backward"),
        )  # fmt: skip
    places = [graph.site_of(node) for node in sources]
    listed = ", ".join(f"{name(graph, node.outputs[0])}{_made(site)}" for node, site in zip(sources[:3], places))
    first = graph.values[sources[0].outputs[0]].name
    mark = f"`{first}.requires_grad_()`" if first and first.isidentifier() else "`.requires_grad_()`"
    return failure(
        facts, CAUSE,
        f"no tensor that reaches {name(graph, root)} asks for gradients: it is computed from {listed}.",
        f"Autograd records only what depends on a tensor with `requires_grad=True`, so"
        f" `{facts.call}()`{at(facts.site)} has no graph to walk.",
        f"Mark the one to be trained where it is made: `requires_grad=True` there, or {mark} before it is used.",
        *(place(site, "made") for site in places[:3]), place(facts.site, "backward"),
    )  # fmt: skip


def no_scalar(facts: Facts) -> Failure | None:
    """The pass starts from a tensor of several elements and no weights were given."""
    if facts.kind not in ("backward", "grad") or facts.scalar or not facts.rooted or not facts.graph.backwards:
        return None
    graph = facts.graph
    root = next((each for each in graph.backwards[-1].roots if _count(graph, each) != 1), None)
    if root is None:
        return None
    shape, site = list(graph.values[root].shape), made(graph, root)
    return failure(
        facts, "loss-is-no-number",
        f"{name(graph, root)}{_made(site)} has shape {shape}: `{facts.call}()`{at(facts.site)} starts from one number.",
        "The gradient of several numbers at once needs a weight for each of them.",
        "Reduce it first (`.mean()` or `.sum()`), or pass the weights: `backward(gradient=...)`.",
        place(facts.site, "backward"), place(site, "made"),
    )  # fmt: skip


def _count(graph: Graph, value: int) -> int:
    count = 1
    for extent in graph.values[value].shape:
        count *= extent
    return count


def _mode(graph: Graph, node: Node) -> Site | None:
    for change in reversed(graph.modes):
        if change.after <= node.id and not change.enabled:
            return graph.site_of(change)
    return None


def _made(site: Site | None) -> str:
    return f" (made{at(site)})" if site is not None else ""
