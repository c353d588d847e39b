"""A term of the loss is a constant for autograd while the rest trains.

What it finds: a summand of a loss that depends on what is trained only through a cut: numbers that were read and put
into a new tensor, an argmax, a comparison, a detach further up, a block without gradients.

Why it matters: nothing is raised and the loss falls, because the other terms train. The term has no effect at all.

Example::

    wrong = (out.argmax(1) != y).float().mean()
    loss = F.cross_entropy(out, y) + beta * wrong

Instead::

    loss = F.cross_entropy(out, y, weight=weights)

Limits: a term that ends in `.detach()` itself is taken as meant (straight-through, baselines).

Sources: Quantum-Cheese/DeepReinforcementLearning_Pytorch#1; Ugenteraan/Deep_Hierarchical_Classification#6.
"""

from collections.abc import Iterator

from plait.graph import Node, Site
from plait.rules._case import Case
from plait.rules._cuts import cuts_above, switch_of, why_cut
from plait.rules._rule import Finding
from plait.rules._terms import terms
from plait.rules._words import at, name, says

_MEANT = {"detach", "data"}


def check(case: Case) -> Iterator[Finding | None]:
    """Every loss of the step, summand by summand."""
    graph = case.graph
    for backward in graph.backwards:
        for root in backward.roots:
            if not graph.values[root].requires_grad:
                continue
            parts = terms(case, root)
            alive = sum(graph.values[each].requires_grad for each in parts)
            for term in parts:
                maker = case.maker(term)
                if graph.values[term].requires_grad or not alive or maker.cut in _MEANT:
                    continue
                cuts = sorted(cuts_above(case, maker.id), key=lambda cut: cut.kind in _MEANT)
                if not cuts:
                    continue
                cut = cuts[0]
                switch = switch_of(case, cut)
                yield case.finding(
                    f"the term {name(graph, term)}{at(case.site(maker))} of the loss {name(graph, root)} gives no"
                    f" gradient: its path ends at {_what(case, cut.node, cut.site)}, where {why_cut(cut)}"
                    f"{at(switch)}.",
                    f"The other {'terms train' if alive > 1 else 'term trains'}, so nothing is raised; this one has"
                    " no effect on any parameter.",
                    _cure(cut.kind),
                    [cut.node, maker], ("cut", cut.site), ("switched off", switch), ("term", case.site(maker)),
                    ("backward", case.site(backward)), terms=len(parts), dead=len(parts) - alive,
                )  # fmt: skip


def _what(case: Case, node: Node, site: Site | None) -> str:
    text = f"`{site.expression}`" if site is not None and site.expression else says(case.graph, node)
    return f"{text}{at(site)}"


def _cure(kind: str) -> str:
    if kind in ("copied as numbers", "read"):
        return "Join the tensors with `torch.stack` or `torch.cat`, which keep the graph, instead of their numbers."
    if kind in ("integer result", "boolean result"):
        return "Build the term from the scores themselves (a softmax, a margin), or leave it out of the loss."
    if kind in ("no_grad", "inference_mode"):
        return "Compute the term outside of the block that switches gradients off."
    return "Compute the term from the tensor itself, or leave it out of the loss."
