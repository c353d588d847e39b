"""Sequences are packed in an order that the packed layout refuses.

What it finds: `pack_padded_sequence` with lengths that do not fall, and the lengths.

Why it matters: the error asks for sorted lengths; that they can be sorted for you is an option that few know.

Example::

    pack_padded_sequence(x, torch.tensor([2, 4]), batch_first=True)

Instead::

    pack_padded_sequence(x, torch.tensor([2, 4]), batch_first=True, enforce_sorted=False)

Limits: up to 64 sequences.

Sources: pytorch/pytorch#15567, #23079.
"""

import json
from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at


def check(case: Case) -> Iterator[Finding | None]:
    """Every refused packing."""
    for event in case.graph.events:
        facts = dict(event.facts)
        if event.kind != "error" or facts.get("op") != "_pack_padded_sequence" or "numbers" not in facts:
            continue
        lengths = json.loads(str(facts["numbers"]))
        if lengths == sorted(lengths, reverse=True):
            continue
        shown = str(lengths[:8])[:-1] + (", ...]" if len(lengths) > 8 else "]")
        yield case.finding(
            f"sequences of lengths {shown} are packed{at(case.site(event))}, and the lengths do not fall.",
            "The packed layout takes the longest sequence first, so PyTorch refuses.",
            "Pass `enforce_sorted=False`: it sorts them, and gives the results back in your order.",
            [case.maker(value) for value in event.values],
            ("packed", case.site(event)),
            sequences=len(lengths),
        )
