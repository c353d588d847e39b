"""Record, explain and batch the dynamic computation graphs of PyTorch programs."""
from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("batch", "cell"):
        from plait import batching
        return getattr(batching, name)
    raise AttributeError(name)
