"""Colours of the terminal; every colour also has a letter or a shape, so nothing is lost without it."""

from __future__ import annotations

import os
import re
from typing import TextIO

from plait.graph._marks import MarkKind

WIDTH = 100  # where the width is not known
_WIDEST = 120

# One sign a kind of remark, in the order of the legend.
SIGNS: dict[MarkKind, str] = {
    "decision": "?", "read": "·", "loop": "↻", "cut": "/", "write": "!", "backward": "←", "finding": "!",
}  # fmt: skip
NAMES: dict[MarkKind, str] = {
    "decision": "decision", "read": "value only read", "loop": "loop and its rounds",
    "cut": "gradient path cut", "write": "written in place", "backward": "backward pass", "finding": "finding",
}  # fmt: skip

_CODES = {
    "dim": "2", "bold": "1", "decision": "33", "read": "36", "loop": "34", "cut": "31", "write": "35",
    "backward": "32", "finding": "31", "heat": "1",
}  # fmt: skip


class Paint:
    """Wraps text in colours, or does not.

    >>> Paint(False)("dim", "...")
    '...'
    """

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.on and text.strip() else text


def colours(stream: TextIO) -> bool:
    """Whether this stream is a terminal that wants colours (NO_COLOR is respected)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def visible(text: str) -> int:
    """Columns that a text takes, colours aside."""
    return len(_CODE.sub("", text))


def clip(text: str, width: int) -> str:
    """The text, cut to `width` columns with `...` at its end; colours take none.

    >>> clip("for x in windows", 10), visible(clip("\x1b[2mfor x in windows\x1b[0m", 10))
    ('for x i...', 10)
    """
    if visible(text) <= width:
        return text
    kept, room = [], max(width - 3, 0)
    coloured = False
    for part in _CODE.split(text):  # text and codes by turns
        if part.startswith("\x1b["):
            kept.append(part)
            coloured = part != _RESET
        elif room > 0:
            kept.append(part[:room])
            room -= len(part)
            if room <= 0:
                break
    return "".join(kept) + "..." + (_RESET if coloured else "")


_RESET = "\x1b[0m"
_CODE = re.compile(r"(\x1b\[\d*m)")
_ASCII = str.maketrans({"├": "|", "└": "`", "│": "|", "─": "-", "↻": "@", "←": "<", "·": "."})


def fit(text: str, encoding: str | None) -> str:
    """The text in signs that this encoding can write.

    >>> fit("├─ ↻ for x in xs", "ascii")
    '|- @ for x in xs'
    """
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII)
    return text


def width(stream: TextIO) -> int:
    """Columns to write: those of the terminal within reason; 100 for files and pipes."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # not a terminal, or a stream without a file behind it
        return WIDTH
    return max(60, min(_WIDEST, columns or WIDTH))
