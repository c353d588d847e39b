"""A side of torch.cond or torch.while_loop is no pure function.

What it finds: a call of `torch.cond` or `torch.while_loop` that was refused because a side writes to an input, returns
an input itself, or returns another structure than the other side.

Why it matters: ordinary branch bodies (append, write into a buffer, return one thing more) have to be rewritten, and
the error is about operators, not about your line.

Example::

    torch.cond(flag, lambda v: v.add_(1), lambda v: v * 1, (x,))

Instead::

    torch.cond(flag, lambda v: v + 1, lambda v: v * 1, (x,))       # or an ordinary `if` under plait.batch

Limits: which of the three it is, PyTorch knows only in words; all are named.

Sources: pytorch/pytorch#147210, #144691, #124573.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._failures import of_cause
from plait.rules._rule import Finding


def check_run(run: Run) -> Iterator[Finding]:
    """The refusals, explained when they happened."""
    yield from of_cause(run)
