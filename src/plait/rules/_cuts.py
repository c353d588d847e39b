"""Where the path of gradients ends although values flow on: cuts, and numbers that were read and made tensors again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait.graph import Decision, Node, Site
from plait.rules._case import Case

NUMBERS = frozenset({"item", "float", "int", "tolist", "numpy", "complex", "index"})
_WHY = {
    "detach": "`detach` cuts it off from what made it",
    "data": "`.data` cuts it off from what made it",
    "copied as numbers": "the numbers of other tensors become a new one",
    "boolean result": "a comparison gives true or false, which has no gradient",
    "integer result": "the result is a whole number (an index, a count), which has no gradient",
    "no_grad": "gradients are switched off",
    "inference_mode": "gradients are switched off",
    "not differentiable": "autograd has no gradient for the operation",
    "read": "the value is read into Python and becomes a plain number",
}


@dataclass(frozen=True)
class Cut:
    """A place where the path ends. `kind` is the `cut` of the node, or `read` (then `decision` read it)."""

    node: Node
    kind: str
    site: Site | None
    decision: Decision | None = None


def why_cut(cut: Cut) -> str:
    """Why the path ends there, as half a sentence."""
    return _WHY.get(cut.kind, cut.kind)


def switch_of(case: Case, cut: Cut) -> Site | None:
    """Where gradients were switched off for a cut, if that is its kind."""
    if cut.kind not in ("no_grad", "inference_mode"):
        return None
    for change in reversed(case.graph.modes):
        if change.after <= cut.node.id and not change.enabled:
            return case.site(change)
    return None


def cuts_above(case: Case, *starts: int) -> list[Cut]:
    """The cuts through which what can be trained flows into these nodes, the last of the program first."""
    found: dict[int, Cut] = {}
    seen, stack = set(starts), list(starts)
    values = case.graph.values
    while stack:
        number = stack.pop()
        node = case.graph.nodes[number]
        if node.cut is not None:
            found[number] = Cut(node, node.cut, case.site(node))
            continue
        if not node.inputs and _from_numbers(node) and (read := _read_before(case, node)) is not None:
            found[number] = Cut(case.maker(read.value), "read", case.site(read), read)
            continue
        if any(values[out].requires_grad for out in node.outputs):
            continue
        for source in case.sources[number]:
            if source not in seen and case.trained[source]:
                seen.add(source)
                stack.append(source)
        for source in case.sources[number]:
            maker = case.graph.nodes[source]
            if source not in seen and not maker.inputs and _from_numbers(maker):
                seen.add(source)
                stack.append(source)
    return [found[number] for number in sorted(found, reverse=True)]


_MAKERS = frozenset({
    "tensor", "as_tensor", "new_tensor", "scalar_tensor", "full", "full_like", "new_full", "from_numpy",
})  # fmt: skip


def _from_numbers(node: Node) -> bool:
    """Whether a node may hold numbers that were read: it makes a tensor of what it is given, or the tensor comes from
    outside of torch (an array)."""
    return node.op in _MAKERS if node.kind == "op" else node.op == "data"


def _read_before(case: Case, node: Node) -> Decision | None:
    """The read of a trained value whose number made this tensor: the last thing read before it, in its own statement.

    A tensor that is made right after a read, in the statement of the read or with the very number, is made from it.
    """
    users = [] if node.kind == "op" else case.users[node.id]
    site = case.site(case.graph.nodes[users[0]] if users else node)
    if site is None:
        return None
    # An array that came from outside shows when it is used first.
    before = users[0] if users else node.id
    numbers = set(_floats(node.arguments))
    reads = case.run.numbers.get(case.number)
    for decision in reversed(case.graph.decisions):
        if decision.after > before or decision.how not in NUMBERS:
            continue
        if not case.trained[case.maker(decision.value).id]:
            continue
        read = reads.reads[decision.id].value if reads is not None and decision.id < len(reads.reads) else None
        if isinstance(read, float) and any(abs(read - each) <= 1e-6 * max(1.0, abs(read)) for each in numbers):
            return decision
        where = case.site(decision)
        whole = decision.how in ("tolist", "numpy")
        if whole and where is not None and where.file == site.file and site.line <= where.line <= site.end_line:
            return decision
    return None


def _floats(text: str) -> Iterable[float]:
    for part in text.replace("[", " ").replace("]", " ").replace(",", " ").replace("=", " ").split():
        try:
            number = float(part)
        except ValueError:
            continue
        if number not in (0.0, 1.0):
            yield number
