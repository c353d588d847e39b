"""An optimizer step changes weights that an older graph still needs.

What it finds: a step that changed a parameter between the forward that saved it and the backward that needs the old
value.

Why it matters: backward() raises and names a version number; the fix that is often tried, retain_graph=True, does not
help.

Example::

    d_loss.backward(retain_graph=True)
    opt_d.step()
    g_loss.backward()      # its graph saved the old weights of d

Instead::

    d_loss.backward(retain_graph=True)
    g_loss.backward()
    opt_d.step(); opt_g.step()

Limits: needs the error to have been raised while plait recorded.

Sources: pytorch/pytorch#39141.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
