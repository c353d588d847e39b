"""Finds the cause of an error: asks each cause in turn, the most certain first."""

from __future__ import annotations

from collections.abc import Callable

from plait.notes import (
    _compile,
    _custom,
    _ddp,
    _freed,
    _inplace,
    _recompute,
    _transform,
    _unreached,
    _unrelated,
    _written,
)
from plait.recording import Facts, Failure

Cause = Callable[[Facts], Failure | None]

_CAUSES: tuple[Cause, ...] = (
    _compile.refused, _custom.wrong_count, _recompute.other_path, _transform.refused, _inplace.refused,
    _unreached.nothing_to_reach, _unreached.no_scalar, _written.on_saved, _freed.walked_twice,
    _unrelated.no_ancestor, _ddp.unused, _ddp.changed, _custom.wrong_shape,
)  # fmt: skip


def explain_error(facts: Facts) -> Failure | None:
    """What these facts say about the error; None where they say nothing certain."""
    for cause in _CAUSES:
        found = cause(facts)
        if found is not None:
            return found
    return None


def failure_of(error: BaseException) -> Failure | None:
    """What plait found out about an exception that passed a recording; None if nothing.

    >>> failure_of(ValueError("no tensor is to blame")) is None
    True
    """
    found = getattr(error, "__plait_failure__", None)
    return found if isinstance(found, Failure) else None
