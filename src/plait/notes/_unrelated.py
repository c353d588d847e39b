"""A gradient was asked with respect to a tensor from which the result was not computed."""

from __future__ import annotations

from plait.graph import Site
from plait.graph._walk import ancestors
from plait.notes._words import at, failure, made, name, place
from plait.recording import Facts, Failure


def no_ancestor(facts: Facts) -> Failure | None:
    """Which of the tensors it is, and how it is related to the result instead."""
    if not facts.unreached or not facts.graph.backwards or "allow_unused" in facts.flags:
        return None
    graph = facts.graph
    call = graph.backwards[-1]
    index = facts.unreached[0]
    if index >= len(call.inputs) or not call.roots:
        return None
    asked, root = call.inputs[index], call.roots[0]
    what, loss = name(graph, asked), name(graph, root)
    born, loss_born = made(graph, asked), made(graph, root)
    maker, node = graph.values[root].node, graph.values[asked].node
    if not graph.values[asked].requires_grad:
        return failure(
            facts, "gradient-of-unrelated-tensor",
            f"{what}{_made(born)} does not ask for gradients, so none flows to it.",
            f"`{facts.call}()`{at(facts.site)} can't give a gradient with respect to it.",
            f"Mark it before it is used: `requires_grad=True` where it is made, or {_mark(graph.values[asked].name)}.",
            place(facts.site, "backward"), place(born, "made"),
        )  # fmt: skip
    flows = any(each.id == node for each in ancestors(graph, maker))
    common = [
        each for each in ancestors(graph, node) if each.outputs and graph.values[each.outputs[0]].requires_grad
        and each.id in {other.id for other in ancestors(graph, maker)}
    ]  # fmt: skip
    if flows:
        why = f"the path from {what} to {loss} is cut on the way"
        cut = next((each for each in ancestors(graph, maker) if each.cut is not None), None)
        where = None if cut is None else graph.site_of(cut)
        return failure(
            facts, "gradient-of-unrelated-tensor", f"{why}{at(where)}.",
            f"No gradient of {loss} flows back to it, so `{facts.call}()`{at(facts.site)} has none to give.",
            "Keep the operations between the two differentiable, or pass `allow_unused=True` if None is an answer.",
            place(where, "cut"), place(facts.site, "backward"), place(born, "made"),
        )  # fmt: skip
    if common:
        names = ", ".join(dict.fromkeys(name(graph, each.outputs[0]) for each in common[:2]))
        why = f"both come from {names}, but {loss} was computed past it"
        cure = f"Compute {loss} from {what}, or ask for the gradient with respect to {names}."
    else:
        why = f"{loss}{_made(loss_born)} was not computed from it"
        cure = f"Compute {loss} from {what}, or pass `allow_unused=True` if None is an answer."
    return failure(
        facts, "gradient-of-unrelated-tensor", f"{what}{_made(born)} is no ancestor of {loss}: {why}.",
        f"A change of {what} would not change {loss}, so `{facts.call}()`{at(facts.site)} has no gradient to give.",
        cure, place(facts.site, "backward"), place(born, "made"), place(loss_born, "made"),
    )  # fmt: skip


def _made(site: Site | None) -> str:
    return f" (made{at(site)})" if site is not None else ""


def _mark(label: str | None) -> str:
    return f"`{label}.requires_grad_()`" if label and label.isidentifier() else "`.requires_grad_()`"
