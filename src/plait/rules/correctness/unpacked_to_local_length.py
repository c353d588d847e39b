"""Parts of a batch that were unpacked on their own have different widths.

What it finds: results of `pad_packed_sequence` that are joined and do not fit, because each was padded to the longest
sequence of its own part.

Why it matters: it works until a part does not hold the longest sequence: with DataParallel, on some batches only.

Example::

    parts = [pad_packed_sequence(p, batch_first=True)[0] for p in packed]
    torch.cat(parts)

Instead::

    parts = [pad_packed_sequence(p, batch_first=True, total_length=T)[0] for p in packed]

Limits: joins inside of DataParallel are only seen where they run in the recorded thread.

Sources: pytorch/pytorch#1591.
"""

from collections.abc import Iterator

from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at

_JOINS = {"cat", "stack", "concat", "vstack", "hstack", "add", "where"}


def check(case: Case) -> Iterator[Finding | None]:
    """Every join that failed."""
    for event in case.graph.events:
        if (
            event.kind != "error"
            or op_name(str(dict(event.facts).get("op", ""))) not in _JOINS
            or len(event.values) < 2
        ):
            continue
        makers = [_unpacked(case, value) for value in event.values]
        widths = [case.graph.values[value].shape for value in event.values]
        if any(maker is None for maker in makers) or len({shape[:2] for shape in widths}) < 2:
            continue
        first = makers[0]
        assert first is not None
        yield case.finding(
            f"results of `pad_packed_sequence`{at(case.site(case.graph.nodes[first]))} have the shapes"
            f" {', '.join(str(list(shape)) for shape in widths[:4])} and are joined{at(case.site(event))}.",
            "Each is padded to the longest sequence of its own part only, so the widths differ from part to part.",
            "Pass `total_length=` (the width of the whole batch) to `pad_packed_sequence`.",
            [first],
            ("unpacked", case.site(case.graph.nodes[first])),
            ("joined", case.site(event)),
            parts=len(widths),
        )


def _made_by(case: Case, site: int) -> bool:
    """Whether a step before made the value there by unpacking."""
    return any(
        node.site == site and op_name(node.op) == "_pad_packed_sequence"
        for other in case.run.cases
        for node in other.graph.nodes
    )


def _unpacked(case: Case, value: int) -> int | None:
    near = [case.graph.values[value].node]
    for _ in range(4):
        for node in near:
            each = case.graph.nodes[node]
            if op_name(each.op) == "_pad_packed_sequence":
                return node
            if each.kind == "input" and each.site is not None and _made_by(case, each.site):
                return node
        near = [source for node in near for source in case.sources[node]]
    return None
