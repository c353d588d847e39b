"""Gradients are clipped by a norm that is not finite.

What it finds: the call of `clip_grad_norm_` that saw an infinite or NaN norm, and the tensors whose gradients caused
it.

Why it matters: all gradients are multiplied by 0 or NaN, silently: infinite entries become NaN and all others 0.

Example::

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

Instead::

    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)

Limits: on an accelerator only with `--values stats`, because reading the norm makes the host wait.

Sources: pytorch/pytorch#46849, #53843.
"""

from collections.abc import Iterator

from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, listed, plural


def check(case: Case) -> Iterator[Finding | None]:
    """Every clipping of the step that went wrong."""
    for event in case.graph.events:
        if event.kind != "clip":
            continue
        facts = dict(event.facts)
        site = case.site(event)
        names = listed([f"`{each}`" for each in event.detail.split(", ") if each])
        backward = case.graph.backwards[-1] if case.graph.backwards else None
        yield case.finding(
            f"`clip_grad_norm_`{at(site)} saw a norm of {facts.get('norm')}: {facts.get('nonfinite')} of"
            f" {plural(int(facts.get('tensors', 0)), 'gradient')} {'is' if facts.get('nonfinite') == 1 else 'are'} not"
            f" finite ({names}).",
            "It multiplies every gradient by maximum / norm: what was infinite becomes NaN, everything else"
            " 0, and nothing"
            " is raised.",
            "Skip the update when the norm is not finite (`error_if_nonfinite=True` raises), and look for where the"
            " gradient was born: `plait run --values stats`.",
            [case.maker(value) for value in event.values], ("clip", site),
            ("backward", None if backward is None else case.site(backward)),
            nonfinite=facts.get("nonfinite", 0), tensors=facts.get("tensors", 0),
        )  # fmt: skip
