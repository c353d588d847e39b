"""A leaf that asks for gradients is written in place while gradients are on.

What it finds: the write, directly or through an index, into a tensor that was made with requires_grad=True.

Why it matters: a leaf is where gradients end; a tracked write would make it the result of an operation, so PyTorch
refuses.

Example::

    w = torch.zeros(4, requires_grad=True)
    w[0] = 1.0

Instead::

    with torch.no_grad():
        w[0] = 1.0

Limits: none known.

Sources: PyTorch, Autograd mechanics (in-place correctness checks).
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
