"""The values of tensors are read in every round of a loop.

What it finds: lines that read a number or a truth value from a tensor at least ten times in a step, inside a loop.

Why it matters: on an accelerator each read waits until everything before it is computed; the queue runs empty.

Example::

    for x in parts:
        total += loss(x).item()

Instead::

    total = torch.stack([loss(x).detach() for x in parts]).sum().item()      # one read

Limits: on the CPU nothing waits; it is reported for what it would cost elsewhere.

Sources: pytorch/pytorch#12461, #131256.
"""

from collections.abc import Iterator

from plait.graph import Site
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, code

FEWEST = 10
_READS = {"bool", "item", "float", "int", "tolist", "numpy", "index", "nonzero", "mask"}


def check(case: Case) -> Iterator[Finding | None]:
    """Line by line."""
    groups: dict[tuple[str, int], list[int]] = {}
    places: dict[tuple[str, int], Site] = {}
    for decision in case.graph.decisions:
        looped = any(region.kind == "iteration" for region in case.regions_above(decision.region))
        site = case.site(decision)
        if site is not None and decision.how in _READS and looped:
            places.setdefault((site.file, site.line), site)
            groups.setdefault((site.file, site.line), []).append(decision.value)
    for key, values in groups.items():
        site = places[key]
        if len(values) < FEWEST or (site.test is not None and site.test.kind == "assert"):
            continue
        device = case.graph.values[values[0]].device
        waits = (
            "Each read waits for the device." if device != "cpu" else "On an accelerator each read would wait for it."
        )
        yield case.finding(
            f"{code(site.expression)}{at(site)} reads a tensor {len(values):,} times in a step.",
            waits,
            "Keep the values on the device and read them once after the loop; `plait.batch` reads once for"
            " all examples.",
            [case.maker(value) for value in values[:8]],
            ("read", site),
            reads=len(values),
        )
