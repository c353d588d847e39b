"""An operation that jagged tensors do not have.

What it finds: calls on jagged (nested) tensors that PyTorch refused, also in backward.

Why it matters: coverage is operation by operation and one ragged dimension deep; the error is about dispatch keys or
symbolic sizes.

Example::

    nested.cumsum(1)

Instead::

    plait.batch(lambda x: x.cumsum(0))(examples)        # or a loop over nested.unbind()

Limits: none known.

Sources: pytorch/pytorch#118107, #132212, #145158.
"""

from collections.abc import Iterator

from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, code


def check(case: Case) -> Iterator[Finding | None]:
    """Every refused call."""
    for event in case.graph.events:
        facts = dict(event.facts)
        site = case.site(event)
        if event.kind != "error" or site is None:
            continue
        ragged = [value for value in event.values if -1 in case.graph.values[value].shape]
        backward = facts.get("op") in ("backward", "grad")
        if backward:
            above = case.above(*(case.graph.values[root].node for each in case.graph.backwards for root in each.roots))
            ragged = [out for node in sorted(above) for out in case.graph.nodes[node].outputs
                      if -1 in case.graph.values[out].shape]  # fmt: skip
        if not ragged and not facts.get("jagged"):
            continue
        op = op_name(str(facts.get("op")))
        if backward:
            copies = [n for n in (case.maker(v) for v in ragged) if op_name(n.op) in ("contiguous", "clone", "to")]
            where = case.site(copies[-1]) if copies else None
            what = f"backward through jagged tensors is refused{at(site)}" + (
                f": {code(where.expression)}{at(where)} gave its result ragged sizes of its own" if where else ""
            )
            yield case.finding(
                f"{what}.",
                "Two jagged tensors fit only if they share one object of offsets; equal lengths are not enough.",
                "Build it from its values with the offsets of the other (`nested_tensor_from_jagged(values,"
                " offsets=...)`),"
                " and before `.contiguous()`.",
                [case.maker(value) for value in ragged[:4]],
                ("copy", where),
                ("backward", site),
            )
            continue
        many = int(facts.get("jagged", 0)) > 1
        yield case.finding(
            f"`{op}` is called with {'jagged tensors' if many else 'a jagged tensor'}{at(site)}, and PyTorch refuses.",
            "The result would be ragged in two dimensions, or there is no rule for it: jagged tensors have one ragged"
            " dimension and a part of the operations."
            if many
            else "Jagged tensors have rules for a part of the operations only, and one ragged dimension.",
            "Run the code for one example at a time (`nested.unbind()`), or write it for one and use `plait.batch`.",
            [case.maker(value) for value in ragged],
            ("called", site),
        )
