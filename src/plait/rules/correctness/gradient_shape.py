"""A custom backward returns a gradient of a shape that its input does not have.

What it finds: the input of the custom Function and the line of its `backward` that made the gradient.

Why it matters: PyTorch's error gives the number of the argument and two shapes, not a line.

Example::

    def backward(ctx, g):
        return g, g.sum(1)               # the weight has the shape of the last dimension

Instead::

    def backward(ctx, g):
        return g, g.sum(0)

Limits: the last operations of `backward` are matched with the inputs by their shapes.

Sources: msurtsukov/neural-ode#2.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, name, says


def check(case: Case) -> Iterator[Finding | None]:
    """Passes that failed right after a custom backward."""
    graph = case.graph
    for event in graph.events:
        if event.kind != "error" or dict(event.facts).get("op") not in ("backward", "grad"):
            continue
        last = _last_custom(case, event.after)
        if not last:
            continue
        function = _function(case, last[-1])
        if function is None:
            continue
        inputs = [edge.value for edge in function.inputs if graph.values[edge.value].requires_grad]
        made = [node for node in last if node.outputs]
        for node in reversed(made):
            shape = graph.values[node.outputs[0]].shape
            if any(_fits(shape, graph.values[each].shape) for each in inputs):
                continue
            wanted = [each for each in inputs if len(graph.values[each].shape) == len(shape)] or inputs
            yield case.finding(
                f"{says(graph, node)}{at(case.site(node))} makes a gradient of shape {list(shape)} in the backward of"
                f" `{function.op}`, and no input has that shape ({name(graph, wanted[-1])} has"
                f" {list(graph.values[wanted[-1]].shape)}).",
                f"The pass{at(case.site(event))} can't add it to the input, so it stops.",
                "Sum over the dimensions that the forward spread the input over, so that the shapes are equal.",
                [node, function],
                ("gradient", case.site(node)),
                ("called", case.site(function)),
                ("backward", case.site(event)),
            )
            break


def _last_custom(case: Case, after: int) -> list[Node]:
    """The operations of the custom backward that ran last before the error."""
    found: list[Node] = []
    frame = None
    for node in reversed(case.graph.nodes[:after]):
        if node.kind == "input":
            continue
        if not node.in_backward:
            break
        own = next(
            (r for r in case.regions_above(node.region) if r.kind == "frame" and r.label.endswith(".backward")), None
        )
        if own is None or (frame is not None and own.id != frame):
            break
        frame = own.id
        found.append(node)
    return found[::-1]


def _function(case: Case, node: Node) -> Node | None:
    label = next(
        r.label for r in case.regions_above(node.region) if r.kind == "frame" and r.label.endswith(".backward")
    )
    cls = label.split(".")[-2]
    return next((each for each in reversed(case.graph.nodes[: node.id]) if each.op == cls), None)


def _fits(gradient: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a gradient can become one of this shape by summing what was broadcast."""
    if len(gradient) < len(shape):
        return False
    tail = gradient[len(gradient) - len(shape) :]
    return all(wanted in (extent, 1) for extent, wanted in zip(tail, shape))
