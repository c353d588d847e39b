"""The backward of a custom Function gives gradients of a wrong number or shape."""

from __future__ import annotations

from plait.graph import Graph, Node
from plait.graph._notation import plural
from plait.notes._words import at, failure, name, place, says
from plait.recording import Facts, Failure

CAUSE = "gradient-shape"


def wrong_count(facts: Facts) -> Failure | None:
    """Fewer or more gradients than inputs."""
    if facts.custom is None:
        return None
    function, given, wanted = facts.custom
    site = facts.custom_site
    called = next((node for node in reversed(facts.graph.nodes) if node.op == function), None)
    where = None if called is None else facts.graph.site_of(called)
    return failure(
        facts, CAUSE,
        f"the backward of `{function}` gives {plural(given, 'gradient')}{at(site)}, and its forward takes"
        f" {plural(wanted, 'input')}.",
        f"The pass{at(facts.site)} can't tell which input each one is for, so it stops.",
        "Return one gradient for each argument of `forward` after `ctx`, in their order; `None` where none is needed.",
        place(site, "gradient"), place(where, "called"), place(facts.site, "backward"),
    )  # fmt: skip


def wrong_shape(facts: Facts) -> Failure | None:
    """A gradient of a shape that no input has, in the custom backward that ran last."""
    if facts.kind not in ("backward", "grad"):
        return None
    graph = facts.graph
    last = _last_custom(graph)
    function = _function(graph, last[-1]) if last else None
    if function is None:
        return None
    inputs = [edge.value for edge in function.inputs if graph.values[edge.value].requires_grad]
    for node in reversed([each for each in last if each.outputs]):
        shape = graph.values[node.outputs[0]].shape
        if any(_fits(shape, graph.values[each].shape) for each in inputs):
            continue
        wanted = [each for each in inputs if len(graph.values[each].shape) == len(shape)] or inputs
        if not wanted:
            return None
        site, called = graph.site_of(node), graph.site_of(function)
        return failure(
            facts, CAUSE,
            f"{says(site, 'an operation')}{at(site)} makes a gradient of shape {list(shape)} in the backward of"
            f" `{function.op}`, and no input has that shape ({name(graph, wanted[-1])} has"
            f" {list(graph.values[wanted[-1]].shape)}).",
            f"The pass{at(facts.site)} can't add it to the input, so it stops.",
            "Sum over the dimensions that the forward spread the input over, so that the shapes are equal.",
            place(site, "gradient"), place(called, "called"), place(facts.site, "backward"),
        )  # fmt: skip
    return None


def _frame(graph: Graph, region: int | None) -> tuple[int, str] | None:
    """(number, label) of the custom backward around a node."""
    while region is not None:
        each = graph.regions[region]
        if each.kind == "frame" and each.label.endswith(".backward"):
            return each.id, each.label
        region = each.parent
    return None


def _last_custom(graph: Graph) -> list[Node]:
    """The operations of the custom backward that ran last before the error."""
    found: list[Node] = []
    frame = None
    for node in reversed(graph.nodes):
        if node.kind == "input":
            continue
        own = _frame(graph, node.region) if node.in_backward else None
        if own is None or (frame is not None and own != frame):
            break
        frame = own
        found.append(node)
    return found[::-1]


def _function(graph: Graph, node: Node) -> Node | None:
    frame = _frame(graph, node.region)
    kind = "" if frame is None else frame[1].split(".")[-2]
    return next((each for each in reversed(graph.nodes[: node.id]) if each.op == kind), None)


def _fits(gradient: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a gradient can become one of this shape by summing what was broadcast."""
    if len(gradient) < len(shape):
        return False
    tail = gradient[len(gradient) - len(shape) :]
    return all(wanted in (extent, 1) for extent, wanted in zip(tail, shape))
