"""Where in the person's code a call comes from; the error that says so."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from greenlet import getcurrent

from plait.batching._current import local
from plait.batching._lazy import BatchError


def site() -> str:
    """`file:line` of the person's code that is running: in the function for one example, else the call of the batch."""
    above = getcurrent().parent
    for f in (sys._getframe(1), above.gr_frame if above is not None else None):
        while f is not None:
            name = f.f_globals.get("__name__", "")
            if not name.startswith(("plait.", "torch.")) and name not in ("plait", "torch"):
                return f"{f.f_code.co_filename}:{f.f_lineno}"
            f = f.f_back
    return ""


OURS: dict[Any, bool] = {}


def site_key(above: int = 1) -> tuple[Any, int]:
    """Like `site`, but quick: the code object and the offset of the instruction; from that many frames above."""
    f: Any = sys._getframe(above)
    while f is not None:
        code = f.f_code
        ours = OURS.get(code)
        if ours is None:
            name = f.f_globals.get("__name__", "")
            ours = OURS[code] = name.startswith(("plait.", "torch.")) or name in ("plait", "torch")
        if not ours:
            return code, f.f_lasti
        f = f.f_back
    return None, 0


def refuse(what: str, instead: str) -> NoReturn:
    example = local.rt.example if local.rt is not None else -1
    who = f", example {example}" if example >= 0 else ""
    raise BatchError(f"{what} ({site() or 'unknown line'}{who}): {instead}")
