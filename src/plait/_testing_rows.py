"""check_independent: the assertion that rows do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plait


def check_independent(model: Callable[..., Any], batch: Any, **options: Any) -> None:
    """Check that each row of `batch` gets the result it would get alone, in another order and with other padding.

    The options are those of `plait.check` (`lengths`, `batch_dim`, `rows`, `seed`).

    >>> import torch
    >>> from plait.testing import check_independent
    >>> check_independent(torch.nn.Linear(3, 2), torch.randn(4, 3))

    Raises:
        AssertionError: a row changes; the message names the line that makes it change and how much it changes.
        PlaitError: the batch can't be taken apart, or the model draws random numbers.
    """
    found = plait.check(model, batch, **options)
    assert not found, f"rows are not independent\n{found}"
