"""`.grad` is read of a copy, while the gradient went to the leaf it was copied from.

What it finds: a tensor made with `requires_grad=True` that was then moved, cast or copied under its own name, and whose
`.grad` is read after backward.

Why it matters: `.grad` is None. Where the move changes nothing (CPU to CPU, same type) it works, so it breaks on
another machine only.

Example::

    x = torch.ones(3, requires_grad=True).double()
    loss(x).backward()
    x.grad                                            # None

Instead::

    x = torch.ones(3, dtype=torch.float64, requires_grad=True)

Limits: only chains of moves, casts and copies from one leaf are reported.

Sources: pytorch/pytorch#22860, #12627.
"""

from collections.abc import Iterator

from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, name, says

COPIES = {"to", "double", "float", "half", "bfloat16", "cuda", "cpu", "clone", "contiguous", "type", "type_as",
          "view", "reshape", "unsqueeze", "squeeze", "mul", "div", "t", "T"}  # fmt: skip


def check(case: Case) -> Iterator[Finding | None]:
    """Every look at the gradient of a result."""
    for event in case.graph.events:
        if event.kind != "grad_of_result":
            continue
        for value in event.values:
            where = case.site(event)
            home, value = _home(case, value)
            leaf = leaf_of_copy(home, value)
            if leaf is None or not _reached(home, value):
                continue
            maker, born = home.maker(value), home.maker(leaf)
            made = home.site(born)
            yield home.finding(
                f"{name(home.graph, value)} is a copy, made by {says(home.graph, maker)}{at(home.site(maker))}; the"
                f" gradient went to the leaf it was made from{at(made)}.",
                f"`.grad`{at(where)} is None: only leaves keep their gradient.",
                "Make the tensor with its final type and device, and ask for gradients there (or call"
                " `.detach().requires_grad_()` after the move).",
                [maker, born],
                ("copied", home.site(maker)),
                ("read", where),
                ("made", made),
            )


def leaf_of_copy(case: Case, value: int) -> int | None:
    """The leaf from which a value comes by moves, casts and copies alone."""
    graph = case.graph
    while True:
        found = graph.values[value]
        if found.leaf:
            return value if found.requires_grad else None
        node = graph.nodes[found.node]
        if node.kind != "op" or op_name(node.op) not in COPIES or len(node.inputs) != 1:
            return None
        value = node.inputs[0].value


def _home(case: Case, value: int) -> tuple[Case, int]:
    """The graph in which a value was made, where this one only carries it."""
    maker = case.maker(value)
    if maker.kind == "input" and maker.site is not None:
        for other in case.run.cases:
            for node in other.graph.nodes:
                if node.kind == "op" and node.site == maker.site and len(node.outputs) == 1:
                    return other, node.outputs[0]
    return case, value


def _reached(case: Case, value: int) -> bool:
    """Whether a backward pass went through a value, in the step that made it or in one that carried it."""
    grad_fn = case.graph.values[value].grad_fn
    site = case.maker(value).site
    for other in case.run.cases:
        carried = [n.id for n in other.graph.nodes if n.kind == "input" and n.op == "carried" and n.site == site]
        roots = [other.graph.values[root].node for each in other.graph.backwards for root in each.roots]
        if site is not None and carried and roots and not other.above(*roots).isdisjoint(carried):
            return True
    return any(grad_fn in case.reach(root).nodes for each in case.graph.backwards for root in each.roots)
