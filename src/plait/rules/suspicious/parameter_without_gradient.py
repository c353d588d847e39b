"""A parameter is never reached by backward, although it is meant to be trained.

What it finds: parameters that an optimizer owns, or that belong to a model that trains, and that no backward pass of
the run reached: their output reaches the loss only through a cut (a detach, gradients switched off), or reaches no
loss, or the branch that calls them never ran. Names the cut, the call or the decision.

Why it matters: the part keeps its first values for ever. Under DistributedDataParallel it stops the training.

Example::

    features = discriminator(fake.detach())
    generator_loss = (features - 1).pow(2).mean()      # reaches no parameter of the generator

Instead::

    features = discriminator(fake)

Limits: a target network that no optimizer owns is silent; so is what is frozen (`requires_grad_(False)`).

Sources: samet-akcay/skip-ganomaly#5; pytorch/pytorch#43259.
"""

from collections.abc import Iterator

from plait.rules._case import Case, Run
from plait.rules._cuts import Cut, cuts_above, switch_of, why_cut
from plait.rules._failures import of_cause
from plait.rules._leaves import Leaf, leaves
from plait.rules._rule import Finding, Where
from plait.rules._words import at, listed, plural, says


def check_run(run: Run) -> Iterator[Finding]:
    """Leaf by leaf, over all graphs of the run."""
    yield from of_cause(run)
    known = leaves(run)
    if not any(each.reached for each in known):
        return
    optimizers = any(event.kind == "optimizer" for case in run.cases for event in case.graph.events)
    training = {each.module for each in known if each.reached}
    cut: dict[Where, tuple[Cut, Case, list[Leaf]]] = {}
    unused: list[Leaf] = []
    dead: list[Leaf] = []
    for leaf in known:
        if leaf.reached or leaf.unseen or leaf.name is None or (optimizers and leaf.optimizer is None):
            continue
        # That an optimizer steps it tells a mistake from a target network, and from a part whose turn comes later.
        stepped = _is_stepped(leaf)
        if optimizers and not stepped and (leaf.uses or leaf.used_without):
            continue
        uses = leaf.uses or (leaf.used_without if stepped else [])
        if uses:
            found = _cut_of(uses)
            place = None if found is None else Where.of("cut", found[0].site)
            if found is not None and place is not None:
                cut.setdefault(place, (*found, []))[2].append(leaf)
            elif leaf.uses and stepped:
                dead.append(leaf)
        elif leaf.module in training and not leaf.used_without and leaf.registered:
            unused.append(leaf)
    for place, (one, case, group) in cut.items():
        names = [f"`{each.name}`" for each in group]
        used = case.site(case.graph.nodes[_user(group[0], case)])
        switch = switch_of(case, one)
        yield run.finding(
            f"{listed(names)} of `{group[0].module or 'the model'}` never got a gradient: from the call{at(used)} the"
            f" loss is reached only through {says(case.graph, one.node)}{at(one.site)}, where"
            f" {why_cut(one)}{at(switch)}.",
            f"{plural(len(group), 'parameter')} ran forward in training and no backward pass reached"
            f" {_them(group)}, so {'it' if len(group) == 1 else 'they'} {_keep(group)}.",
            "Compute this loss from the tensor itself; keep the cut for the loss that must not train this part.",
            [Where.of("switched off", switch), place, Where.of("used", used)], steps=case.steps, graph=case.number,
            nodes=[one.node.id],
            parameters=len(group),
        )  # fmt: skip
    if any(event.kind == "error" for case in run.cases for event in case.graph.events):
        return
    yield from _reach_no_loss(run, dead)
    if unused:
        yield from _never_used(run, unused)


def _is_stepped(leaf: Leaf) -> bool:
    """Whether an optimizer that owns it made an update in a step that used it."""
    for case, _ in (*leaf.uses, *leaf.used_without):
        for event in case.graph.events:
            if event.kind == "optimizer" and leaf.values[case.number] in map(case.first, event.values):
                return True
    return False


def _user(leaf: Leaf, case: Case) -> int:
    uses = [*leaf.uses, *leaf.used_without]
    return next((user for each, user in uses if each is case), uses[0][1])


def _reach_no_loss(run: Run, dead: list[Leaf]) -> Iterator[Finding]:
    """Parts that run before the backward passes of a step, whose results no loss was computed from."""
    calls: dict[Where, tuple[Case, int, list[Leaf]]] = {}
    for leaf in dead:
        for case, user in leaf.uses:
            place = Where.of("used", case.site(case.graph.nodes[user]))
            if place is not None and any(each.after > user for each in case.graph.backwards):
                calls.setdefault(place, (case, user, []))[2].append(leaf)
                break
    for place, (case, user, group) in calls.items():
        node = case.graph.nodes[user]
        yield run.finding(
            f"{listed([f'`{each.name}`' for each in group])} of `{group[0].module or 'the model'}` never got a"
            f" gradient: no loss of the run is computed from what {says(case.graph, node)}{at(case.site(node))} makes.",
            f"{plural(len(group), 'parameter')} ran forward for nothing and {_keep(group)};"
            " DistributedDataParallel would wait for them.",
            "Add what it makes to the loss, or leave the call out and the part out of the optimizer.",
            [place], steps=case.steps, graph=case.number, nodes=[user], parameters=len(group),
        )  # fmt: skip


def _cut_of(uses: list[tuple[Case, int]]) -> tuple[Cut, Case] | None:
    """The cut between a use of a leaf and a loss, in the first graph that shows one."""
    for case, user in uses:
        below = case.below(user)
        for backward in case.graph.backwards:
            if case.failed(backward):
                continue
            for root in backward.roots:
                maker = case.graph.values[root].node
                if maker not in below:
                    continue
                for cut in _all_cuts(case, maker):
                    if cut.node.id in below:
                        return cut, case
    return None


def _all_cuts(case: Case, maker: int) -> list[Cut]:
    """Every cut above a loss, also above the parts that have a gradient."""
    above = case.above(maker)
    found = [Cut(case.graph.nodes[each], case.graph.nodes[each].cut or "", case.graph.site_of(case.graph.nodes[each]))
             for each in sorted(above, reverse=True) if case.graph.nodes[each].cut is not None]  # fmt: skip
    return found or cuts_above(case, maker)


def _never_used(run: Run, unused: list[Leaf]) -> Iterator[Finding]:
    names = [f"`{each.name}`" for each in unused]
    model = unused[0].module or "the model"
    for case in run.cases:
        if not case.graph.backwards:
            continue
        backward = case.site(case.graph.backwards[-1])
        decision = next(
            (each for each in case.graph.decisions if (site := case.site(each)) is not None and site.test is not None
             and site.test.kind in ("if", "conditional") and _in_model(case, each.after)), None,
        )  # fmt: skip
        site = None if decision is None else case.site(decision)
        if site is not None and site.test is not None:
            why = f": `{site.test.expression}`{at(site)} never chose the branch that calls {_them(unused)}"
        else:
            why = ": no call of the run used " + _them(unused)
        yield run.finding(
            f"{listed(names)} of `{model}` never got a gradient{why}.",
            f"{plural(len(unused), 'parameter')} of a model that trains {_keep(unused)}; DistributedDataParallel would"
            " wait for them.",
            "Call this part, or freeze it with `requires_grad_(False)` and leave it out of the optimizer.",
            [Where.of("decision", site), Where.of("backward", backward)], steps=case.steps, graph=case.number,
            parameters=len(unused),
        )  # fmt: skip
        return


def _in_model(case: Case, after: int) -> bool:
    """Whether the nodes around this place ran inside of a module."""
    near = case.graph.nodes[max(0, after - 2) : after + 1]
    return any(node.scope is not None for node in near)


def _keep(group: list[Leaf]) -> str:
    return "keeps its first values" if len(group) == 1 else "keep their first values"


def _them(group: list[Leaf]) -> str:
    return "it" if len(group) == 1 else "them"
