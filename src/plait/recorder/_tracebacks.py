"""A traceback that the program prints or logs shows the frames that it would show without a recording.

`traceback` and `logging` walk a traceback through one function of the module `traceback`; here that walk leaves out
the frames that are there only because the recorder hands calls on. The traceback itself stays as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from plait._frames import artifacts

WALKS = ("walk_tb", "_walk_tb_with_full_positions")  # of the module `traceback`, checked on Python 3.11 to 3.14


def without_ours(walk: Any) -> Any:
    """`walk`, which yields (frame, ...) for each entry of a traceback, without frames of the recorder."""

    @functools.wraps(walk)
    def walk_the_rest(tb: Any) -> Iterator[tuple[Any, Any]]:
        entries = list(walk(tb))
        ours = artifacts([entry[0].f_code for entry in entries])
        if all(ours):  # an error of plait itself: all of it is ours
            ours = [False] * len(ours)
        return iter([entry for entry, is_ours in zip(entries, ours) if not is_ours])

    return walk_the_rest
