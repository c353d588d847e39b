"""A custom Function keeps its output on `ctx`.

What it finds: an attribute of `ctx`, set in `forward`, that is an output of the function.

Why it matters: the output holds its graph node, the node holds `ctx`, and `ctx` holds the output: a cycle that only the
garbage collector ends, so memory is not released when the result goes out of scope.

Example::

    ctx.result = y
    return y

Instead::

    ctx.save_for_backward(y)
    return y

Limits: attributes set in `backward` are not looked at.

Sources: pytorch/pytorch#25340.
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, size


def check(case: Case) -> Iterator[Finding | None]:
    """Every custom Function of the step."""
    seen = set()
    for event in case.graph.events:
        if event.kind != "output_on_ctx" or (event.site, event.detail) in seen:
            continue
        seen.add((event.site, event.detail))
        function, attribute = event.detail.rsplit(".", 1)
        nbytes = int(dict(event.facts).get("nbytes", 0))
        yield case.finding(
            f"`{function}` stores its output on `ctx.{attribute}`{at(case.site(event))}.",
            f"Output and node hold each other: {size(nbytes)} a call stay until the garbage collector runs.",
            "Use `ctx.save_for_backward(...)`, which breaks the cycle.",
            [case.maker(value) for value in event.values],
            ("stored", case.site(event)),
            nbytes=nbytes,
        )
