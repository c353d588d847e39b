"""The verbs, a few lines each: the one place where the two halves meet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from plait.recorder import Record


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
