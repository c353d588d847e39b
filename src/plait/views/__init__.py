"""Draws a recording: terminal text, dot, mermaid, JSON, Perfetto. No torch."""

from plait.views._report import (
    EXPORTS,
    export,
    graph_json,
    report,
    show,
    show_graph,
    show_json,
    show_source,
)
from plait.views._theme import colours, fit, width

__all__ = [
    "EXPORTS", "colours", "export", "fit", "graph_json", "report", "show", "show_graph", "show_json", "show_source",
    "width",
]  # fmt: skip
