"""The compiled core where it was built, else the Python one; PLAIT_CORE=python asks for the latter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("PLAIT_CORE", "") == "python":
    from plait.batching._core_py import (
        CellBase,
        Core,
        Entry,
        LazyBase,
        MetaBase,
        ModuleCall,
        Test,
        dispatch,
        install,
        use,
    )

    NATIVE = False
else:
    try:
        from plait.batching._core import (
            CellBase,
            Core,
            Entry,
            LazyBase,
            MetaBase,
            ModuleCall,
            Test,
            dispatch,
            install,
            use,
        )

        NATIVE = True
    except ImportError:
        from plait.batching._core_py import (
            CellBase,
            Core,
            Entry,
            LazyBase,
            MetaBase,
            ModuleCall,
            Test,
            dispatch,
            install,
            use,
        )

        NATIVE = False

__all__ = [
    "NATIVE",
    "CellBase",
    "Core",
    "Entry",
    "LazyBase",
    "MetaBase",
    "ModuleCall",
    "Test",
    "dispatch",
    "install",
    "use",
]
