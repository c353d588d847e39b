"""Backward walks into a graph that an earlier pass has freed.

What it finds: which of four mistakes it is: a state carried over the border of a step, a forward done once outside of
the loop, stored results used again, or two losses that share a graph.

Why it matters: the error suggests retain_graph=True, which makes each step slower than the last and hides the mistake.

Example::

    for x in batches:
        h = cell(x, h)          # h still hangs on the graph of the batch before
        loss(h).backward()

Instead::

    for x in batches:
        h = cell(x, h.detach())
        loss(h).backward()

Limits: a graph older than the last steps that plait keeps in memory is only known by the value that leads to it.

Sources: pytorch/examples#151; PyTorch forums on BPTT and retain_graph.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
