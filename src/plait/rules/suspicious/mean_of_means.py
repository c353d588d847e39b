"""Accumulated gradients are the mean of means of batches that differ in size.

What it finds: several backward passes that add up their gradients before one update, where each loss is a mean over its
own number of elements, and those numbers differ by half or more.

Why it matters: elements of a small part weigh more than those of a large one. The accumulated gradient is not the
gradient of the whole batch; the difference is silent.

Example::

    for part in parts:
        (F.cross_entropy(model(part.x), part.y) / len(parts)).backward()

Instead::

    total = sum(len(part.y) for part in parts)
    for part in parts:
        (F.cross_entropy(model(part.x), part.y, reduction="sum") / total).backward()

Limits: only means that the loss is made of directly are compared, and only where the loss is scaled for the number of
parts: a plain sum over examples, each with its own mean, is taken as meant.

Sources: huggingface/transformers#34191; meta-pytorch/torchtune#1875.
"""

from collections.abc import Iterator
from math import prod

from plait.graph import Backward, Node, Site
from plait.graph._notation import op_name
from plait.rules._case import Case, Run
from plait.rules._rule import Finding, Where
from plait.rules._terms import terms
from plait.rules._words import at

_MEANS = {"mean", "mse_loss", "cross_entropy", "nll_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
          "binary_cross_entropy", "binary_cross_entropy_with_logits"}  # fmt: skip
_SCALES = {"div", "mul", "rmul", "true_divide", "div_", "mul_"}


def check_run(run: Run) -> Iterator[Finding]:
    """Pass by pass, in order."""
    window: dict[tuple[str, int, int | None], list[tuple[int, int]]] = {}
    sites: dict[tuple[str, int, int | None], tuple[Site, Site | None, Case, Node]] = {}
    done = set()
    for step, case in run.sequence():
        for backward in case.graph.backwards:
            if not backward.adds:
                window.clear()
            for mean, site, size in _means(case, backward):
                key = (site.file, site.line, site.column)
                sites[key] = (site, case.site(backward), case, mean)
                sizes = window.setdefault(key, [])
                sizes.append((size, step.id))
                numbers = [each for each, _ in sizes]
                if key not in done and max(numbers) >= 1.5 * min(numbers):
                    done.add(key)
                    yield _finding(run, sizes, *sites[key])


def _means(case: Case, backward: Backward) -> Iterator[tuple[Node, Site, int]]:
    for root in backward.roots:
        if op_name(case.maker(root).op) not in _SCALES:
            continue  # not scaled to the parts: each example counts the same on purpose
        for term in terms(case, root):
            node = case.maker(term)
            site = case.site(node)
            if op_name(node.op) not in _MEANS or not node.inputs or site is None or "sum" in node.arguments:
                continue
            value = case.graph.values[node.inputs[0].value]
            elements = case.graph.values[node.inputs[-1].value] if len(node.inputs) > 1 else value
            if not case.graph.values[node.outputs[0]].shape and prod(elements.shape) > 0:
                yield node, site, prod(elements.shape)


def _finding(run: Run, sizes: list[tuple[int, int]], site: Site, where: Site | None, case: Case, node: Node) -> Finding:
    few, many = min(size for size, _ in sizes), max(size for size, _ in sizes)
    return run.finding(
        f"one update adds gradients of means over {few:,} and over {many:,} elements (`{site.expression}`{at(site)}).",
        f"Each part counts the same, so an element of the smaller one weighs {many / few:.2g} times more: this is not"
        " the gradient of the whole batch.",
        "Sum the losses of each part and divide by the number of elements of all parts together.",
        [Where.of("mean", site), Where.of("backward", where)],
        steps=[step for _, step in sizes],
        graph=case.number,
        nodes=[node.id],
        smallest=few,
        largest=many,
    )
