"""Batched forms, one row (or one file) for a family of ops; importing this package fills the table."""

from plait.batching.kernels import (
    attention,
    linear,
    losses,
    pointwise,
    recurrent,
    reductions,
    shapes,
    spatial,
)
from plait.batching.kernels._table import LOWER, lower

__all__ = [
    "LOWER",
    "attention",
    "linear",
    "losses",
    "lower",
    "pointwise",
    "recurrent",
    "reductions",
    "shapes",
    "spatial",
]
