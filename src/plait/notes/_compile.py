"""A compiler (torch.compile, torch.export, torch.fx) refused the program."""

from __future__ import annotations

import re

from plait.graph import Site
from plait.notes._words import at, code, failure, place, says
from plait.recording import Facts, Failure

_READS = re.compile(r"\.(item|tolist|numpy|nonzero)\(|\b(int|float|bool)\(")
_GIVES_EACH = "`plait.batch` runs it as it stands"


def refused(facts: Facts) -> Failure | None:
    """At which line it gave up, and why a graph can't hold that line."""
    site = facts.site
    if facts.kind != "compile" or site is None:
        return None
    if "inside" in facts.flags:
        return failure(
            facts, "impure-branch",
            f"the sides of {says(site, '`torch.cond`')}{at(site)} can't become one operation.",
            "Each side has to be a pure function: it writes to no input, returns no input itself, and all sides return"
            " results of the same number, types and ranks.",
            f"Return new tensors (`x * 2`, `x.clone()`), the same structure from both sides; {_GIVES_EACH}, with an"
            " ordinary `if`.",
            place(site, "called"), category="dynamism",
        )  # fmt: skip
    if site.test is not None or _READS.search(site.expression):
        return failure(
            facts, "data-dependent-decision",
            f"{_asked(site)}{at(site)} needs the number in a tensor, and there is none yet when the graph is made.",
            f"{facts.call} has to put the whole function into one graph, so it refuses the line.",
            "Compute both ways and choose with `torch.where` or `torch.cond`, or leave the line out of what is compiled"
            f" (`fullgraph=False` splits there); {_GIVES_EACH}.",
            place(site, "decision"), category="dynamism",
        )  # fmt: skip
    return failure(
        facts, "compile-gave-up",
        f"{facts.call} can't follow {says(site, 'the line')}{at(site)}.",
        "It has to put the whole function into one graph, and this line has no place in one.",
        "Move the line out of what is compiled, or allow a split there (`fullgraph=False`).",
        place(site, "gave up"), category="dynamism",
    )  # fmt: skip


def _asked(site: Site) -> str:
    return code(site.test.expression) if site.test is not None else says(site, "a read")
