"""plait: record, explain and batch the dynamic computation graphs of PyTorch programs.

Names are found on first use, so `import plait` is light and does not import torch.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait._api import explain as explain
    from plait._api import explain_ranks as explain_ranks
    from plait._api import record as record
    from plait._api import report as report
    from plait._api import rule_list as rule_list
    from plait._api import rule_page as rule_page
    from plait._api import view as view
    from plait._errors import PlaitError as PlaitError
    from plait.batching import batch as batch
    from plait.batching import cell as cell
    from plait.checks import check as check
    from plait.diffs import diff as diff
    from plait.graph import Graph as Graph
    from plait.recording import Recording as Recording
    from plait.recording import load as load
    from plait.rules import Finding as Finding
    from plait.rules import Findings as Findings

__version__ = "0.1.0"

_HOMES = {
    "batch": "plait.batching",
    "cell": "plait.batching",
    "Finding": "plait.rules",
    "Findings": "plait.rules",
    "explain": "plait._api",
    "explain_ranks": "plait._api",
    "report": "plait._api",
    "rule_list": "plait._api",
    "rule_page": "plait._api",
    "Graph": "plait.graph",
    "PlaitError": "plait._errors",
    "Recording": "plait.recording",
    "check": "plait.checks",
    "diff": "plait.diffs",
    "load": "plait.recording",
    "load_ipython_extension": "plait.integrations._ipython",
    "record": "plait._api",
    "unload_ipython_extension": "plait.integrations._ipython",
    "view": "plait._api",
}

__all__ = [
    "Finding", "Findings", "Graph", "PlaitError", "Recording", "batch", "cell", "check", "diff", "explain", "load",
    "record", "view",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


if "IPython" in sys.modules:  # a recording that is the last line of a cell shows its page
    import_module("plait.integrations._ipython").show_recordings()
