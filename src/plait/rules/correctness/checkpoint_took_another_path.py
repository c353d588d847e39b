"""A checkpoint's recomputation differs from its forward.

What it finds: the first operation or decision in which the two runs of the region part.

Why it matters: the error lists shapes of saved tensors; the cause is a decision on state that has changed, or a side
effect that ran twice.

Example::

    def block(x):
        cache.append(x)             # runs again in backward
        return layer(torch.cat(cache))

Instead::

    cache.append(x)
    checkpoint(lambda: layer(torch.cat(cache)))

Limits: regions that run in other threads are not seen.

Sources: pytorch/torchtitan#1117; pytorch/pytorch#155171.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
