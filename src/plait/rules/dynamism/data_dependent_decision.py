"""The program asks tensors for their values to decide how it goes on.

What it finds: every place where a value of a tensor chose a branch, the rounds of a loop or the size of a tensor, with
its outcomes and how often each came; decisions that always fell the same way are told apart. Also refusals: such a
decision under vmap, symbolic tracing or export.

Why it matters: these are the places that break `torch.compile`, `torch.export`, `vmap` and `jit.trace`, and where an
accelerator has to wait for the host.

Example::

    if x.sum() > 0:
        x = x.sin()

Instead::

    x = torch.where(x.sum() > 0, x.sin(), x)      # or plait.batch, which keeps the `if`

Limits: asserts, and decisions at the top level of a script, are left out.

Sources: pytorch/functorch#257; pytorch/pytorch#147096.
"""

from collections.abc import Iterator

from plait.graph import Site
from plait.rules._case import Run
from plait.rules._failures import of_cause
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, listed, plural

_READS = {"__bool__", "item", "__int__", "__float__", "__index__", "is_nonzero", "tolist"}
_SIZES = {"nonzero", "mask", "unique"}


def check_run(run: Run) -> Iterator[Finding]:
    """Every place, once."""
    known = list(of_cause(run))
    yield from known
    yield from _refused(run, known)
    yield from _symbolic(run)
    counts: dict[int, dict[str, int]] = {}
    steps: dict[int, list[int]] = {}
    hows: dict[int, str] = {}
    for case in run.cases:
        reads = run.numbers.get(case.number)
        for decision in case.graph.decisions:
            site = case.site(decision)
            if site is None or site.function == "<module>":
                continue
            sized = decision.how in _SIZES
            if not sized and (site.test is None or site.test.kind == "assert"):
                continue
            outcome = decision.outcome
            if outcome is None and reads is not None and decision.id < len(reads.reads):
                value = reads.reads[decision.id].value
                text = "numbers" if not sized else f"size {value}"
                if isinstance(value, bool):
                    text = str(value)
            else:
                text = str(outcome)
            mine = counts.setdefault(site.id, {})
            mine[text] = mine.get(text, 0) + max(len(case.steps), 1)
            steps.setdefault(site.id, []).extend(case.steps)
            hows[site.id] = decision.how
    for number, outcomes in counts.items():
        site = run.recording.site(number)
        yield _place(run, site, hows[number], outcomes, sorted(set(steps[number])))


def _place(run: Run, site: Site, how: str, outcomes: dict[str, int], steps: list[int]) -> Finding:
    total = sum(outcomes.values())
    text = code(site.test.expression if site.test is not None else site.expression)
    if how in _SIZES:
        fact = f"the size of the result of {code(site.expression)}{at(site)} depends on values: {_outcomes(outcomes)}."
    elif len(outcomes) == 1 and total > 1 and "numbers" not in outcomes:
        fact = (
            f"the decision {text}{at(site)} was always {next(iter(outcomes))}, {total:,} times: constant in this run."
        )
    elif "numbers" in outcomes:
        fact = f"the decision {text}{at(site)} reads a number from a tensor, {plural(total, 'time')}."
    else:
        fact = f"the decision {text}{at(site)} depends on a value: {_outcomes(outcomes)}."
    return run.finding(
        fact,
        "`torch.compile` breaks its graph here, `torch.export` and `vmap` refuse, `jit.trace` keeps the branch that the"
        " example took, and an accelerator waits.",
        "Use `torch.where` or `torch.cond` for both sides, or keep it as it is and batch it with `plait.batch`.",
        [Where.of("decision", site)],
        steps=steps,
        total=total,
        outcomes=len(outcomes),
    )


def _outcomes(outcomes: dict[str, int]) -> str:
    most = sorted(outcomes.items(), key=lambda each: -each[1])
    return listed([f"{text} {plural(count, 'time')}" for text, count in most], 4)


def _refused(run: Run, known: list[Finding]) -> Iterator[Finding]:
    """Reads that failed because there is no value: under export and other tracing with tensors that hold none."""
    lines = {(each.file, each.line) for each in known}
    for case in run.cases:
        for event in case.graph.events:
            site = case.site(event)
            if event.kind != "error" or dict(event.facts).get("op") not in _READS or not event.values or site is None:
                continue
            shape = case.graph.values[event.values[0]].shape
            if any(each != 1 for each in shape) or (site.file, site.line) in lines:
                continue
            text = code(site.test.expression if site.test is not None else site.expression)
            yield run.finding(
                f"{text}{at(site)} asks a tensor for its value while the program is traced, and it has none there.",
                "Export and tracing run with sizes only; a decision on a value can't be put into the graph.",
                "Use `torch.where` or `torch.cond` for both sides, or decide before the model is called.",
                [Where.of("decision", site)],
                steps=case.steps,
                graph=case.number,
                total=1,
            )


def _symbolic(run: Run) -> Iterator[Finding]:
    for case in run.cases:
        for event in case.graph.events:
            site = case.site(event)
            if event.kind != "symbolic" or site is None:
                continue
            text = code(site.test.expression if site.test is not None else site.expression)
            yield run.finding(
                f"symbolic tracing asked {text}{at(site)} for its {event.detail}: the program decides on a"
                " value there.",
                "A symbolic value has none, so `torch.fx` refuses, and with it the tools that are built on it.",
                "Use `torch.where` or `torch.cond` for both sides, or mark the function as a leaf (`torch.fx.wrap`).",
                [Where.of("decision", site)],
                steps=case.steps,
                graph=case.number,
                total=1,
            )
