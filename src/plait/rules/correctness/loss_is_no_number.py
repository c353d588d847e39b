"""backward() starts from a tensor of several elements.

What it finds: the call and the line that made the tensor.

Why it matters: the gradient of several numbers at once needs a weight for each.

Example::

    loss = F.mse_loss(y, t, reduction='none')
    loss.backward()

Instead::

    loss.mean().backward()

Limits: none known.

Sources: torch.autograd.backward, argument gradient.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
