"""Draws a recording: terminal text, page, dot, mermaid, JSON, Perfetto. No torch."""

from plait.views._html import is_page, page, serve, write_page
from plait.views._notebook import Page
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
    "EXPORTS", "Page", "colours", "export", "fit", "graph_json", "is_page", "page", "report", "serve", "show",
    "show_graph", "show_json", "show_source", "width", "write_page",
]  # fmt: skip
