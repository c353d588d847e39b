"""A tensor made under inference_mode is used in training.

What it finds: where it was made and which operation would have to save it.

Why it matters: an inference tensor is marked for life; no_grad would have been enough.

Example::

    with torch.inference_mode():
        features = backbone(x)
    head(features).sum().backward()

Instead::

    with torch.no_grad():
        features = backbone(x)

Limits: none known.

Sources: facebookresearch/dinov2#472.
"""

from plait.rules._failures import of_cause as check_run

__all__ = ["check_run"]
