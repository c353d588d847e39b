"""The verbs, a few lines each: the one place where the two halves meet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plait.graph._marks import Mark
    from plait.recorder import Record
    from plait.recording import Recording
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
    from plait.recorder import record as start

    return start(path, values=values, limit=limit, overwrite=overwrite)


def view(
    recording: Recording | str | os.PathLike[str], *, step: int | None = None, marks: Iterable[Mark] = ()
) -> Page:
    """The page of a recording: left as the last line of a cell it is shown there; `.open()` shows it in the browser.

    >>> plait.view("run.plait", step=12).save("step.html")   # doctest: +SKIP

    Args:
        recording: a recording, or the name of its file.
        step: the step to begin with (-1 is the last); by default the last that trained or ran a model.
        marks: remarks at lines of the source, shown beside those that the page has of its own.
    """
    from plait.recording import Recording, load
    from plait.views import Page

    return Page(recording if isinstance(recording, Recording) else load(os.fspath(recording)), marks, step)
