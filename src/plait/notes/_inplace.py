"""A write in place that autograd refuses at once: into a leaf, into a view that can't be followed, into inference."""

from __future__ import annotations

import ast

from plait.graph import Graph, Node, Site
from plait.graph._notation import op_name
from plait.notes._words import at, code, failure, made, name, place, root, says
from plait.recording import Facts, Failure, Target

_SEVERAL = {"unbind", "split", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes", "__iter__"}


def refused(facts: Facts) -> Failure | None:
    """Why this call was not allowed to write, or to use an inference tensor."""
    if facts.transform or facts.kind not in ("write", "op"):
        return None
    if (found := _inference(facts)) is not None or facts.kind == "op" or facts.target is None:
        return found
    target = facts.target
    if target.overlapping:
        return _overlapping(facts, target)
    if not facts.grad_mode:
        return None
    return _view(facts, target) or (_leaf(facts, target) if target.base_leaf or target.leaf else None)


def _leaf(facts: Facts, target: Target) -> Failure | None:
    what = _name(facts, target)
    if target.view and not target.base_leaf:
        return None
    if facts.call == "__setitem__" or target.base_leaf:
        base = what if not target.base_leaf or target.value is None else name(
            facts.graph, root(facts.graph, target.value)
        )  # fmt: skip
        fact = f"{says(facts.site, 'this call')} writes into a part of {base}, a leaf that asks for gradients."
    else:
        fact = f"{says(facts.site, 'this call')} writes into {what}, a leaf that asks for gradients."
    return failure(
        facts, "inplace-on-leaf", fact,
        "A leaf is where gradients end: a tracked write would make it the result of an operation.",
        "To set its numbers, write inside `with torch.no_grad():`; to compute with other numbers, make a new tensor"
        " (`.clone()` first).",
        place(facts.site, "written"), place(_made(facts, target), "made"),
    )  # fmt: skip


def _view(facts: Facts, target: Target) -> Failure | None:
    if target.value is None or not target.view:
        return None
    graph = facts.graph
    viewer = _viewer(graph, target.value)
    site, what = graph.site_of(viewer), _name(facts, target)
    base = name(graph, root(graph, target.value))
    if op_name(viewer.op) in _SEVERAL or len(viewer.outputs) > 1:
        text = "" if site is None else site.expression
        how = f"the loop {code(text.split(':')[0])}" if text.startswith("for ") else says(site, f"`{viewer.op}`")
        return failure(
            facts, "write-into-view",
            f"{says(facts.site, 'this call')} writes into {what}, one of several tensor views that"
            f" {how}{at(site)} made of {base}.",
            "Autograd can't follow a write into one of several views that one call made.",
            f"Write through an index ({_index(graph, target.value)}), or collect new tensors and `torch.stack` them.",
            place(facts.site, "written"), place(site, "view"),
        )  # fmt: skip
    if not viewer.grad_mode:
        mode = _mode(graph, viewer)
        return failure(
            facts, "write-into-view",
            f"{what} is a tensor view of {base}, made{at(site)} while gradients were off"
            f"{'' if mode is None else f' (since {_line(mode)})'}; {says(facts.site, 'this call')} writes into it while"
            " they are on.",
            "Autograd can't tell whether that write should be tracked, so it refuses.",
            f"Make the view where gradients are on, or move the write at {_line(facts.site)} under `torch.no_grad()`.",
            place(facts.site, "written"), place(site, "view"), place(mode, "mode"),
        )  # fmt: skip
    return None


def _overlapping(facts: Facts, target: Target) -> Failure:
    site = _made(facts, target)
    return failure(
        facts, "write-into-view",
        f"{says(facts.site, 'this call')} writes into {_name(facts, target)}, whose elements share memory"
        f" ({says(site, 'an expanded tensor')}{at(site)}).",
        "One number in memory stands for several elements, so they can't be given different values.",
        "Give it memory of its own first: `.clone()` or `.contiguous()` after the expand.",
        place(facts.site, "written"), place(site, "made"),
    )  # fmt: skip


def _inference(facts: Facts) -> Failure | None:
    """A tensor that was made under inference_mode is in the hands of autograd."""
    tensors = facts.arguments if facts.kind == "op" else (facts.target,)
    found = next((each for each in tensors if each is not None and each.inference), None)
    if found is None or (facts.kind == "op" and not facts.grad_mode):
        return None
    site = _made(facts, found)
    what = _name(facts, found)
    return failure(
        facts, "inference-tensor-in-graph",
        f"{what}{f', made{at(site)}' if site is not None else ''} under `torch.inference_mode()`, is used by"
        f" {says(facts.site, 'this call')}{at(facts.site)}.",
        "A tensor made there is marked for life: autograd can neither save it nor track writes to it.",
        "Make it under `torch.no_grad()` instead, or `.clone()` it outside of inference_mode before it is used.",
        place(site, "made"), place(facts.site, "used"),
    )  # fmt: skip


def _viewer(graph: Graph, value: int) -> Node:
    """The node that made the tensor view (later writes to the same view followed back)."""
    found = graph.values[value]
    while found.previous is not None:
        found = graph.values[found.previous]
    return graph.nodes[found.node]


def _mode(graph: Graph, node: Node) -> Site | None:
    for change in reversed(graph.modes):
        if change.after <= node.id and not change.enabled:
            return graph.site_of(change)
    return None


def _name(facts: Facts, target: Target) -> str:
    if target.expression:
        return f"`{target.expression}`"
    spoken = _spoken(facts.site) if target is facts.target else ""
    if spoken:
        return code(spoken)
    return name(facts.graph, target.value) if target.value is not None else "a tensor"


def _spoken(site: Site | None) -> str:
    """What the written tensor is called in the expression that writes: `row` of `row.mul_(2)`, `E` of `E[0]`."""
    try:
        found = ast.parse(site.expression.strip() if site is not None else "", mode="eval").body
    except SyntaxError:
        return ""
    if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        return ast.unparse(found.func.value)
    return ast.unparse(found.value) if isinstance(found, ast.Subscript) else ""


def _made(facts: Facts, target: Target) -> Site | None:
    if target.value is None:
        return None
    origin = facts.windows[-1].origins.get(target.value)
    if origin is not None:
        return made(facts.windows[origin[0]].graph, origin[1])
    return made(facts.graph, target.value)


def _index(graph: Graph, value: int) -> str:
    base = graph.values[root(graph, value)].name
    return f"`{base}[i]`" if base else "`x[i]` of the whole tensor"


def _line(site: Site | None) -> str:
    return "there" if site is None else at(site).removeprefix(" at ")
