"""The verbs, a few lines each: the one place where the two halves meet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from plait.diffs import RankDiff
    from plait.graph._marks import Mark
    from plait.recorder import Record
    from plait.recording import Recording
    from plait.rules import Findings, Parting
    from plait.views import Page


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    values: Literal["loss", "stats"] = "loss",
    limit: int = 100_000,
    overwrite: bool = False,
) -> Record:
    """A recording of everything that PyTorch does, for `with`, as a decorator, or `record().run(fn, *args)`.

    >>> import plait, torch
    >>> with plait.record() as rec:
    ...     x = torch.tensor([1.0, 2.0], requires_grad=True)
    ...     loss = (x * x).sum()
    ...     loss.backward()
    >>> len(rec.steps), rec.graph.find("mul")[0].outputs
    (1, (1,))

    Args:
        path: the file to write (`run.plait`); None keeps the recording in memory (`rec.save(path)` writes it later).
        values: `"loss"` keeps the numbers that decided and the loss; `"stats"` also measures gradient norms at every
            backward node (a few kernels more a node: two to three times slower on small models).
        limit: how many distinct graphs are kept; later ones are counted only, and the report says so.
        overwrite: whether an existing file may be replaced.

    Raises:
        RecordingError: the file exists, or cannot be made.
    """
    from plait.notes import explain_error
    from plait.recorder import record as start

    return start(path, values=values, limit=limit, overwrite=overwrite, on_error=explain_error)


def explain(
    what: Recording | str | os.PathLike[str] | Any, *, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> Findings:
    """What is wrong with a run, in plain words with lines: a list that prints well.

    >>> import plait, torch
    >>> with plait.record() as rec:
    ...     w = torch.ones(3, requires_grad=True)
    ...     (w * 2).sum().backward()
    >>> plait.explain(rec)
    nothing found

    Args:
        what: a recording, the path of one, a leaf such as `model.fc.weight` (why its gradient is what it is; of the
            recording that saw it last), or an exception that was raised while a recording ran.
        select, ignore: names of rules or categories.

    Raises:
        RecordingError: the file cannot be read.
        NotFoundError: there is no such rule, no recording knows the tensor, or none saw the exception.
    """
    from plait.recording import Recording, load
    from plait.rules import explain_leaf, explain_recording

    if isinstance(what, BaseException):
        return _explain_exception(what)
    if isinstance(what, Recording):
        return explain_recording(what, select, ignore)
    if isinstance(what, (str, os.PathLike)):
        with load(Path(what)) as recording:
            return explain_recording(recording, select, ignore)
    from plait.recorder import recording_of

    recording, number = recording_of(what)
    return explain_leaf(recording, number)


def _explain_exception(error: BaseException) -> Findings:
    from plait._errors import NotFoundError
    from plait.notes import failure_of
    from plait.rules import Findings, finding_of

    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        failure = failure_of(each)
        if failure is not None:
            return Findings([finding_of(failure)])
        each = each.__cause__ or each.__context__
    raise NotFoundError(
        f"explain: nothing is known of this {type(error).__name__}: it was not raised while plait recorded, or its"
        " message says all there is"
    )


def explain_ranks(
    paths: Sequence[str | os.PathLike[str]], *, select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> Findings:
    """What is wrong with the ranks of one job: where they part, then what each recording shows, each once.

    Raises:
        PlaitError: one of the files is no recording, or there is only one.
    """
    from plait.diffs import diff_ranks
    from plait.recording import load
    from plait.rules import Findings, explain_recording, merged

    found = diff_ranks([os.fspath(path) for path in paths])
    every = []
    for index, path in enumerate(paths):
        with load(Path(path)) as recording:
            every.append(explain_recording(recording, select, ignore, parting=_parting(found) if not index else None))
    first = every[0]
    rest = [each for some in every[1:] for each in some if each.places]
    whole = {(each.rule, each.places): each for each in [*rest, *first]}
    problems = dict.fromkeys(each for some in every for each in some.problems)
    remarks = dict.fromkeys(each for some in every for each in some.remarks)
    return Findings(merged(whole.values()), problems, remarks)


def _parting(found: RankDiff) -> Parting | None:
    from plait.rules import Parting, Where

    if not found:
        return None
    site = next((rank.half.site for rank in found.ranks if rank.half is not None and rank.half.site), None)
    first = found.divergence
    return Parting(
        found.step, None if first is None else first.kind, "" if first is None else first.label,
        Where.of("parts", site), tuple(found.doings()),
        tuple((rank.label, rank.unreached) for rank in found.ranks if rank.unreached),
        tuple((rank.label, rank.steps, rank.status, Where.of("last", rank.last_site)) for rank in found.ranks),
    )  # fmt: skip


def rule_list() -> str:
    """The rules by category, one a line."""
    from plait.rules import CATEGORIES, rules

    known = rules()
    wide = max(len(each.name) for each in known)
    parts = []
    for category in CATEGORIES:
        own = [f"  {each.name:<{wide}}  {each.title}" for each in known if each.category == category]
        parts.append("\n".join([category, *own]))
    return "\n\n".join(parts)


def rule_page(name: str) -> str:
    """The page of a rule."""
    from plait.rules import rule

    found = rule(name)
    return f"{found.name} ({found.category})\n\n{found.page.strip()}"


def report(recording: Recording, *, colour: bool = False, width: int = 100) -> str:
    """What `plait run` prints at its end: the views, with the findings as remarks in the source."""
    from plait.views import report as show

    return show(recording, colour=colour, width=width, findings=_finding_marks(recording))


def _finding_marks(recording: Recording) -> list[Mark]:
    """What `explain` finds, as remarks that the views can draw."""
    from plait.graph._marks import Mark
    from plait.rules import explain_recording

    memory = ("accumulated-loss", "container-keeps-graph", "graph-grows-across-steps")
    found = explain_recording(recording, select=("correctness", "suspicious", "numerics", *memory))
    return [
        Mark("finding", f"{each.rule}: {each.fact}", each.file, each.line, -1)
        for each in found
        if each.file is not None and each.line is not None
    ]


def view(
    recording: Recording | str | os.PathLike[str],
    *against: Recording | str | os.PathLike[str],
    step: int | None = None,
    marks: Iterable[Mark] | None = None,
) -> Page:
    """The page of a recording: left as the last line of a cell it is shown there; `.open()` shows it in the browser.

    >>> plait.view("run.plait", step=12).save("step.html")   # doctest: +SKIP
    >>> plait.view("before.plait", "after.plait").open()     # doctest: +SKIP

    Args:
        recording: a recording, or the name of its file.
        against: another one to compare it with, or the other ranks of its job: the page begins with where they part.
        step: the step to begin with (-1 is the last); by default the last that trained or ran a model.
        marks: remarks at lines of the source, beside those that the page has of its own; by default what `explain`
            finds.
    """
    from plait.recording import Recording, load
    from plait.views import Page

    found = [each if isinstance(each, Recording) else load(os.fspath(each)) for each in (recording, *against)]
    contrast = None
    if against:
        from plait.diffs import contrast as compare

        contrast = compare(found)
    return Page(found[0], _finding_marks(found[0]) if marks is None else marks, step, contrast)
