"""A custom backward reads the memory of its gradient as if it were dense.

What it finds: `as_strided` (or a view of raw memory) on the gradient that a custom backward was given.

Why it matters: gradients come expanded or transposed (the gradient of `sum` has stride 0), so reading them row after
row
gives wrong numbers, silently.

Example::

    def backward(ctx, g):
        return torch.as_strided(g, g.shape, (g.shape[1], 1)).clone()

Instead::

    def backward(ctx, g):
        g = g.contiguous()
        return torch.as_strided(g, g.shape, (g.shape[1], 1)).clone()

Limits: what a kernel outside of PyTorch does with the memory is not seen.

Sources: pytorch/pytorch#64529, #99638.
"""

from collections.abc import Iterator

from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, says


def check(case: Case) -> Iterator[Finding | None]:
    """Every operation of a custom backward."""
    for node in case.graph.nodes:
        if not node.in_backward or op_name(node.op) != "as_strided" or not node.inputs:
            continue
        maker = case.maker(node.inputs[0].value)
        frame = next(
            (r for r in case.regions_above(node.region) if r.kind == "frame" and r.label.endswith(".backward")), None
        )
        inside = {region.id for region in case.regions_above(maker.region)}
        if frame is None or frame.id in inside:
            continue
        yield case.finding(
            f"{says(case.graph, node)}{at(case.site(node))} reads the memory of the gradient that"
            f" `{frame.label.split('.')[-2]}` was given.",
            "A gradient may be expanded or transposed; then its memory holds other numbers than these strides expect.",
            "Call `.contiguous()` on the gradient first.",
            [node],
            ("read", case.site(node)),
        )
