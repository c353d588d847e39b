"""A custom backward returns gradients of a wrong shape or number.

What it finds: the input of the custom Function and the line of its `backward` that made a gradient of a shape that the
input does not have; or the `return` that gives another number of gradients than the forward has inputs.

Why it matters: PyTorch's error gives the number of the argument and two shapes, not a line.

Example::

    def backward(ctx, g):
        return g, g.sum(1)               # the weight has the shape of the last dimension

Instead::

    def backward(ctx, g):
        return g, g.sum(0)

Limits: the last operations of `backward` are matched with the inputs by their shapes; gradients are counted where the
`return` spells them out.

Sources: msurtsukov/neural-ode#2.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._failures import of_cause
from plait.rules._rule import Finding


def check_run(run: Run) -> Iterator[Finding]:
    """The errors, explained when they happened."""
    yield from of_cause(run)
