"""What the forward keeps for backward, and which lines keep most of it.

What it finds: in steps that keep more than 1 MB for backward, the lines that keep most, each memory counted once and
parameters left out.

Why it matters: activations, not parameters, usually fill the memory in training. This is where checkpointing helps.

Example::

    attention = (q @ k.transpose(1, 2)).softmax(-1) @ v       # saves two maps of T x T for every head

Instead::

    F.scaled_dot_product_attention(q, k, v)                   # or torch.utils.checkpoint around the block

Limits: what custom Functions and compiled code keep is known only where PyTorch shows it.

Sources: pytorch/pytorch#3778, #12664, #91692.
"""

from collections.abc import Iterator

from plait.graph import Site
from plait.rules._case import Case, Run
from plait.rules._rule import Finding, Where
from plait.rules._words import code, path_of, size

LEAST = 1_000_000


def check_run(run: Run) -> Iterator[Finding]:
    """The graph that keeps most."""
    best: tuple[int, dict[tuple[str, int], tuple[int, Site]], Case] | None = None
    for case in run.cases:
        total, lines = _saved(case)
        if total >= LEAST and lines and (best is None or total > best[0]):
            best = total, lines, case
    if best is None:
        return
    total, lines, case = best
    top = sorted(lines.values(), key=lambda each: -each[0])[:3]
    shown = "; ".join(
        f"{size(nbytes)} by {code(site.expression, 40)} at {path_of(site.file)}:{site.line}" for nbytes, site in top
    )
    yield run.finding(
        f"a step keeps {size(total)} for backward, in {len(lines):,} lines: {shown}.",
        f"This memory is held from the forward to the backward pass of each such step; these lines are"
        f" {100 * sum(nbytes for nbytes, _ in top) / total:.0f} % of it.",
        "If memory is short, put `torch.utils.checkpoint` around the block of these lines, or use a smaller batch.",
        [Where.of("saved", site) for _, site in top],
        steps=case.steps,
        graph=case.number,
        nbytes=total,
    )


def _saved(case: Case) -> tuple[int, dict[tuple[str, int], tuple[int, Site]]]:
    graph = case.graph
    seen: set[int] = set()
    total = 0
    lines: dict[tuple[str, int], tuple[int, Site]] = {}
    for node in graph.nodes:
        for item in node.saved:
            if item.value is not None:
                root = case.roots[item.value]
                if root in seen or case.maker(root).kind == "input":
                    continue
                seen.add(root)
            total += item.nbytes
            site = case.site(node)
            if site is not None:
                old = lines.get((site.file, site.line), (0, site))
                lines[site.file, site.line] = old[0] + item.nbytes, site
    return total, lines
