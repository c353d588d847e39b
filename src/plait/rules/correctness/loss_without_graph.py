"""backward() or grad() starts where no gradient can flow.

What it finds: where the path from the parameters to the loss was cut: a read of numbers, a rounding or argmax, a
detach, gradients switched off, a constant returned by a branch, or no tensor that asks for gradients at all. A loss
that was made a leaf with requires_grad is the same mistake with the error silenced.

Why it matters: PyTorch only says that element 0 does not require grad; the silenced form raises nothing and trains
nothing.

Example::

    accuracy = (model(x).argmax(1) == y).float().mean()
    (1 - accuracy).backward()

Instead::

    F.cross_entropy(model(x), y).backward()

Limits: a cut inside of a compiled or scripted function is not seen.

Sources: ronghuaiyang/arcface-pytorch#56; PyTorch forums.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.rules._case import Case, Run
from plait.rules._cuts import NUMBERS, Cut, cuts_above, why_cut
from plait.rules._failures import of_cause
from plait.rules._rule import Finding
from plait.rules._words import at, name, says


def check_run(run: Run) -> Iterator[Finding]:
    """The errors, explained when they happened."""
    yield from of_cause(run)


def check(case: Case) -> Iterator[Finding | None]:
    """Passes that raise nothing and reach nothing: the loss itself was made a leaf, behind a cut."""
    graph = case.graph
    for each in graph.backwards:
        for root in each.roots:
            # A result that needed no gradient when it was made and does now: somebody has made it a leaf.
            value, born = graph.values[root], graph.values[case.first(root)]
            made_of_number = born.requires_grad and value.leaf and not case.maker(born.id).inputs
            if (
                (born.requires_grad and not made_of_number)
                or (value.requires_grad and not value.leaf)
                or case.failed(each)
                or each.how != "backward"
            ):
                continue
            maker = case.maker(case.first(root))
            cuts = _last_read(case, maker) if made_of_number else cuts_above(case, maker.id)
            if maker.kind == "op" and cuts:
                cut = cuts[0]
                yield case.finding(
                    f"{name(graph, root)} is a leaf: nothing that can be trained reaches it, because the path ends at"
                    f" {says(graph, cut.node)}{at(cut.site)}, where {why_cut(cut)}.",
                    f"The backward pass{at(case.site(each))} fills the gradient of {name(graph, root)} itself and of no"
                    " parameter.",
                    "Compute the loss in differentiable operations; `requires_grad = True` on a loss only silences the"
                    " error.",
                    [cut.node, maker], ("cut", cut.site), ("made", case.site(maker)), ("backward", case.site(each)),
                )  # fmt: skip


def _last_read(case: Case, maker: Node) -> list[Cut]:
    """The last number of something trained that was read before a leaf of one number was made."""
    if case.graph.values[maker.outputs[0]].shape not in ((), (1,)):
        return []
    for decision in reversed(case.graph.decisions):
        made = case.maker(decision.value)
        if decision.after <= maker.id and decision.how in NUMBERS and case.trained[made.id]:
            return [Cut(made, "read", case.site(decision), decision)]
    return []
