"""Numbers that SQLite does not keep: it stores a NaN as NULL, which already means that there is no number."""

from __future__ import annotations

from typing import Any


def stored(value: Any) -> Any:
    """A cell as the file keeps it: the text `nan` for a NaN.

    >>> stored(float("nan")), stored(float("inf")), stored(None)
    ('nan', inf, None)
    """
    return "nan" if value != value else value


def floating(cell: Any) -> float | None:
    """The number of a cell of type REAL; None for NULL.

    >>> floating("nan"), floating(0.5), floating(None)
    (nan, 0.5, None)
    """
    return float(cell) if isinstance(cell, str) else cell
