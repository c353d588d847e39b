"""A parameter gets gradients and belongs to no optimizer and no module.

What it finds: parameters that backward reaches and that the model does not know as its own, because their layer lies in
a plain list or dict or is only used by it, and parameters that took the place of one that the optimizer still holds.

Why it matters: training runs, the layers never change, are not moved to the device and not saved.

Example::

    self.layers = [nn.Linear(8, 8) for _ in range(3)]

Instead::

    self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

Limits: a part that is left out of the optimizer as a whole, but is registered, is taken as meant.

Sources: pytorch/pytorch#666, #715, #59925.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._leaves import Leaf, leaves
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, listed, plural


def check_run(run: Run) -> Iterator[Finding]:
    """Leaf by leaf."""
    known = leaves(run)
    optimizers = any(event.kind == "optimizer" for case in run.cases for event in case.graph.events)
    hidden = [
        each for each in known
        if each.reached and each.uses and not each.registered and each.optimizer is None
        and (optimizers or each.holder is not None)
    ]  # fmt: skip
    groups: dict[str, list[Leaf]] = {}
    for leaf in hidden:
        groups.setdefault(leaf.holder or "", []).append(leaf)
    for holder, group in groups.items():
        case, user = group[0].uses[0]
        site = case.site(case.graph.nodes[user])
        where = (
            f"they lie in `{holder.split(' ')[0]}`, a plain {holder.split('(')[-1].rstrip(')')}"
            if holder
            else (f"`{group[0].module}` only uses the module they are in")
        )
        call = code(site.expression) if site is not None and site.expression else "a call"
        yield run.finding(
            f"{plural(len(group), 'parameter')} used by {call}{at(site)} got a gradient and belong to no optimizer and"
            f" to no module: {where}.",
            f"`{group[0].module}.parameters()` does not list them, so they are never updated, moved or saved.",
            "Keep layers in `nn.ModuleList` or `nn.ModuleDict`, or assign them as attributes of the module.",
            [Where.of("used", site)],
            steps=case.steps,
            graph=case.number,
            nodes=[user],
            parameters=len(group),
        )
    if optimizers:
        yield from _replaced(run, known)


def _replaced(run: Run, known: list[Leaf]) -> Iterator[Finding]:
    """The optimizer holds a parameter that the model has replaced by another one of the same name."""
    held = {(each.module, each.name) for each in known if each.optimizer is not None and not each.reached}
    group = [each for each in known if each.reached and each.uses and each.optimizer is None and each.name is not None
             and each.registered and (each.module, each.name) in held]  # fmt: skip
    if not group:
        return
    case, user = group[0].uses[0]
    site = case.site(case.graph.nodes[user])
    yield run.finding(
        f"{listed([f'`{each.name}`' for each in group])} used{at(site)} got a gradient, but the optimizer holds the"
        f" {'parameter' if len(group) == 1 else 'parameters'} of the same name from before.",
        "The optimizer updates what the model no longer uses; the new part never changes.",
        "Make the optimizer after the model has its final layers, or give it the new ones with `add_param_group`.",
        [Where.of("used", site)],
        steps=case.steps,
        graph=case.number,
        nodes=[user],
        parameters=len(group),
    )
