"""Frames that are on the stack only because a recording runs. Standard library only.

A call that a function mode watches runs as: function of torch -> `handle_torch_function` -> handler of plait -> the
same function of torch once more. Without the recording only the last of these would be there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

_HERE = str(Path(__file__).resolve().parent) + os.sep
_OVERRIDES = os.path.join("torch", "overrides.py")


def is_ours(code: CodeType) -> bool:
    """Whether this is code of plait."""
    return code.co_filename.startswith(_HERE)


def artifacts(codes: Sequence[CodeType]) -> list[bool]:
    """For the code of every frame of a stack, outermost first: whether only the recording put it there."""
    found = [is_ours(code) for code in codes]
    for place, code in enumerate(codes[:-1]):
        hands_over = code.co_name == "handle_torch_function" and code.co_filename.endswith(_OVERRIDES)
        if not hands_over or not is_ours(codes[place + 1]):
            continue
        found[place] = True
        after = next((each for each in codes[place + 1 :] if not is_ours(each)), None)
        if place and codes[place - 1] is after:
            found[place - 1] = True
    return found
