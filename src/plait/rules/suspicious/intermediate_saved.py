"""A custom Function saves an intermediate, and its gradient is differentiated again.

What it finds: tensors given to `save_for_backward` that are neither inputs nor outputs of the function, where a pass
with
`create_graph=True` goes through it.

Why it matters: the intermediate has no graph to the input, so a part of the second derivative is missing. Nothing is
raised.

Example::

    y = x.exp()
    ctx.save_for_backward(x, y)
    return x * y

Instead::

    ctx.save_for_backward(x)             # and compute x.exp() again in backward; or return y as an output too

Limits: an intermediate that does not depend on the inputs (noise, a mask) does no harm; only floating-point tensors are
counted.

Sources: pytorch/pytorch#104040.
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, plural


def check(case: Case) -> Iterator[Finding | None]:
    """Every custom Function that a pass with a graph of its own reaches."""
    twice = [each for each in case.graph.backwards if each.create_graph and not case.failed(each)]
    if not twice:
        return
    reached = {
        case.graph.backward_nodes[n].node for each in twice for root in each.roots for n in case.reach(root).nodes
    }
    for event in case.graph.events:
        if event.kind != "saved_intermediate" or not event.values:
            continue
        function = case.maker(event.values[0])
        if function.id not in reached:
            continue
        count = int(dict(event.facts).get("tensors", 1))
        yield case.finding(
            f"`{event.detail}` saves {plural(count, 'tensor')}{at(case.site(event))} that"
            f" {'is' if count == 1 else 'are'}"
            f" neither input nor output, and the pass{at(case.site(twice[0]))} differentiates through it with"
            " `create_graph=True`.",
            "What was saved has no graph to the inputs, so its part of the second derivative is silently 0.",
            "Save inputs and outputs only: compute the intermediate again in backward, or return it as an output.",
            [function],
            ("saved", case.site(event)),
            ("called", case.site(function)),
            ("backward", case.site(twice[0])),
            tensors=count,
        )
