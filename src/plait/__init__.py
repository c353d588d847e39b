"""plait: record, explain and batch the dynamic computation graphs of PyTorch programs.

Names are found on first use, so `import plait` is light and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait._api import record as record
    from plait._errors import PlaitError as PlaitError
    from plait.checks import check as check
    from plait.diffs import diff as diff
    from plait.graph import Graph as Graph
    from plait.recording import Recording as Recording
    from plait.recording import load as load

__version__ = "0.1.0"

_HOMES = {
    "Graph": "plait.graph",
    "PlaitError": "plait._errors",
    "Recording": "plait.recording",
    "check": "plait.checks",
    "diff": "plait.diffs",
    "load": "plait.recording",
    "record": "plait._api",
}

__all__ = ["Graph", "PlaitError", "Recording", "check", "diff", "load", "record"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
