"""torch.compile gave up on a function and runs it as it stands.

What it finds: functions under `torch.compile` of which nothing was compiled, with the line at which the compiler gave
up; and lines that it refused with an error (`fullgraph=True`, `torch.export`).

Why it matters: nothing is said by default. The function is as slow as before, and the time for compiling is lost.

Example::

    @torch.compile
    def f(x):
        for _ in range(5):
            x = torch.sin(x)
            if x.sum() > 100:            # a decision inside of a loop: the whole function runs as it stands
                x = x * 0
        return x

Instead::

    x = torch.where(x.sum() > 100, x * 0, x)

Limits: of the last 64 compilations.

Sources: pytorch/pytorch#119186.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._compiled import Compiled, compiled, source_of
from plait.rules._failures import of_cause
from plait.rules._rule import Finding, Where
from plait.rules._words import code, path_of


def check_run(run: Run) -> Iterator[Finding]:
    """The refusals, then function by function what was left uncompiled without a word."""
    yield from of_cause(run)
    refused = {(place.file, place.line) for each in run.recording.failures for place in each.places}
    for each in compiled(run):
        if each.failed_line and not each.compiled and not _is_told(each, refused):
            yield _finding(run, each)


def _is_told(each: Compiled, refused: set[tuple[str, int]]) -> bool:
    return any(line == each.failed_line and each.failed_file.endswith(file.lstrip("./")) for file, line in refused)


def _finding(run: Run, each: Compiled) -> Finding:
    facts = source_of(run, each.failed_file).line_facts(each.failed_line)
    asked = facts.test is not None
    line = code(facts.test.expression if facts.test is not None else facts.expression) if facts.expression else "a line"
    why = f"{line} at {path_of(each.failed_file)}:{each.failed_line}"
    loop = facts.loops[-1] if facts.loops else None
    inside = f", inside of the loop at line {loop.line}" if loop is not None else ""
    return run.finding(
        f"nothing of `{each.function}` ({path_of(each.file)}:{each.line}) was compiled: the compiler gave up at {why}"
        f"{inside}.",
        "The whole function runs as it stands; nothing is said about it."
        if loop is None
        else "A function can't be split inside of a loop, so all of it runs as it stands; nothing is said about it.",
        ("Compute both ways and choose with `torch.where`" if asked else "Move the line out of the function")
        + ", or compile the part before it on its own.",
        [Where("gave up", each.failed_file, each.failed_line, facts.expression),
         Where("function", each.file, each.line)],
    )  # fmt: skip
