"""A tensor that backward needs is overwritten in place.

What it finds: the line that wrote into a tensor after an operation had saved it for its backward pass, in loops,
through tensor views and through functions as well.

Why it matters: PyTorch's error names the victim and its version number, never the line that wrote; anomaly mode shows
where the victim was computed.

Example::

    y = x.exp()
    y += 1            # exp needs its own result
    y.sum().backward()

Instead::

    y = x.exp()
    y = y + 1

Limits: writes from other threads, NumPy and custom extensions are not seen; the finding then names the operation that
saved the tensor only.

Sources: PyTorch, Autograd mechanics (in-place operations); pytorch/pytorch#15803, #30458.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
