"""A write into a tensor view that autograd cannot follow.

What it finds: writes into one of several views that one call made (iteration, unbind, split, chunk), into a view made
while gradients were off, and into expanded tensors.

Why it matters: the error speaks of a function (Unbind) that stands in no line of the program.

Example::

    for row in x:
        row.mul_(2)

Instead::

    x = torch.stack([row * 2 for row in x])

Limits: none known.

Sources: pytorch/pytorch#48149, #40884, #103185.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
