"""The compiled core where it was built, else the Python one; PLAIT_CORE=python asks for the latter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

NAMES = (
    "CellBase", "Core", "Entry", "FastCall", "LazyBase", "MetaBase", "Test", "dispatch", "handle", "install",
    "straight", "use",
)  # fmt: skip

if TYPE_CHECKING:
    from plait.batching._core_py import (
        CellBase,
        Core,
        Entry,
        FastCall,
        LazyBase,
        MetaBase,
        Test,
        dispatch,
        handle,
        install,
        straight,
        use,
    )  # fmt: skip

    NATIVE = False
else:
    try:
        if os.environ.get("PLAIT_CORE", "") == "python":
            raise ImportError
        from plait.batching import _core as core
    except ImportError:
        from plait.batching import _core_py as core
    NATIVE = not core.__name__.endswith("_py")
    globals().update({name: getattr(core, name) for name in NAMES})

__all__ = [
    "NATIVE", "CellBase", "Core", "Entry", "FastCall", "LazyBase", "MetaBase", "Test",
    "dispatch", "handle", "install", "straight", "use",
]  # fmt: skip
