"""Warnings say the place that they would say without a recording.

A warning names a frame by its distance from the one that warns, and the recorder's own frames stand in between. So a
warning that is about to be shown is looked at once more: if frames of ours were counted, it is given again for the
frame that was meant. Filters, `catch_warnings` and "once for each place" then work as always.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from plait._frames import artifacts, is_ours


def relocating(show: Any) -> Any:
    """`warnings._showwarnmsg`, through which every warning goes that is shown."""

    at_its_place: list[Any] = []  # warnings that have been given again

    @functools.wraps(show)
    def show_at_its_place(message: Any) -> Any:
        if any(each is message.message for each in at_its_place):
            return show(message)
        try:
            meant = _frames_meant(message)
        except Exception:
            meant = None
        if meant is None:
            return show(message)
        counted, frame = meant
        _forget(message, counted.f_globals.get("__warningregistry__"))
        at_its_place.append(message.message)
        try:
            return warnings.warn_explicit(
                message.message, message.category, frame.f_code.co_filename, frame.f_lineno,
                frame.f_globals.get("__name__", "<string>"), frame.f_globals.setdefault("__warningregistry__", {}),
                frame.f_globals, message.source,
            )  # fmt: skip
        finally:
            at_its_place.remove(message.message)

    return show_at_its_place


def _frames_meant(message: Any) -> tuple[Any, Any] | None:
    """(the frame that the warning names, the frame it would name without us); None if they are the same."""
    frames: list[Any] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    level = next(
        (
            level for level, each in enumerate(frames)
            if each.f_lineno == message.lineno and each.f_code.co_filename == message.filename
        ), None,
    )  # fmt: skip
    if level is None or not any(is_ours(each.f_code) for each in frames[: level + 1]):
        return None
    passed = artifacts([each.f_code for each in reversed(frames)])[::-1]
    real = [each for each, ours in zip(frames, passed) if not ours]
    return (frames[level], real[level]) if level < len(real) else None


def _forget(message: Any, registry: Any) -> None:
    """It was shown for a wrong place: that must not keep a later one from being shown."""
    text = str(message.message)
    for seen in (registry, getattr(warnings, "onceregistry", None)):
        if isinstance(seen, dict):
            for key in (
                (text, message.category, message.lineno),
                (text, message.category, 0),
                (text, message.category),
            ):
                seen.pop(key, None)
