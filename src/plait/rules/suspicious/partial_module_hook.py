"""A backward hook of the old kind sees the last operation of its module only.

What it finds: `register_backward_hook` on a module whose forward runs several operations.

Why it matters: `grad_input` holds the gradients of the inputs of the last operation, not of the module's inputs.
Nothing
is raised.

Example::

    model.register_backward_hook(hook)

Instead::

    model.register_full_backward_hook(hook)

Limits: a module of one operation is silent: there both are the same.

Sources: pytorch/pytorch#12331.
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, plural


def check(case: Case) -> Iterator[Finding | None]:
    """Every hook that was registered."""
    for event in case.graph.events:
        if event.kind != "module_hook":
            continue
        ran = _operations(case, event.detail)
        parts = int(dict(event.facts).get("parts", 0))
        if ran < 2 and parts < 2:
            continue
        runs = plural(ran, "operation") if ran > 1 else plural(parts, "part")
        yield case.finding(
            f"`register_backward_hook`{at(case.site(event))} is set on `{event.detail}`, a module of {runs}.",
            "Its `grad_input` is that of the last operation inside, not of the module.",
            "Use `register_full_backward_hook`.",
            [],
            ("hook", case.site(event)),
            operations=ran,
        )


def _operations(case: Case, module: str) -> int:
    """How many operations a call of the module runs, its parts included."""
    best = 0
    for other in case.run.cases:
        paths = [scope for scope in other.graph.scopes if scope.module == module]
        for scope in paths:
            inside = {each.id for each in other.graph.scopes if each.path == scope.path or not scope.path
                      or each.path.startswith(f"{scope.path}.")}  # fmt: skip
            best = max(best, sum(node.scope in inside and not node.in_backward for node in other.graph.nodes))
    return best
