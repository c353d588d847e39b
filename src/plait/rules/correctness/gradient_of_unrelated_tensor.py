"""A gradient is asked for with respect to a tensor that is no ancestor.

What it finds: the tensor, where it was made, and what it has in common with the tensor that is differentiated.

Why it matters: the error says that one of the tensors was not used in the graph, not which or why.

Example::

    z = torch.cat([a, b])
    c = (a * b).sum()
    torch.autograd.grad(c, z)

Instead::

    z = torch.cat([a, b])
    c = (z[:3] * z[3:]).sum()
    torch.autograd.grad(c, z)

Limits: with allow_unused=True nothing is raised and nothing is said.

Sources: pytorch/pytorch#20663.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
