"""A scene in the language of Mermaid, which many pages and editors draw in place."""

from __future__ import annotations

from plait.graph._model import Graph
from plait.views._scene import scene

_SIGNS = {"op": ("[", "]"), "input": ("([", "])"), "decision": ("{", "}")}


def mermaid(graph: Graph) -> str:
    """The folded graph as a Mermaid flowchart."""
    drawn = scene(graph)
    lines = ["flowchart TD"]
    for depth, box, ends in drawn.nested():
        space = "  " * depth
        if ends:
            lines.append(f"{space}end")
            continue
        label = "<br/>".join(_escape(line) for line in box.lines)
        if box.kind == "group":
            lines.append(f'{space}subgraph {box.id}["{label}"]')
        else:
            before, after = _SIGNS[box.kind]
            lines.append(f'{space}{box.id}{before}"{label}"{after}')
    for arrow in drawn.arrows:
        line = "-.->" if arrow.back or arrow.asks else "-->"
        label = f'|"{_escape(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {arrow.start} {line}{label} {arrow.end}")
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Mermaid's own signs as entities: inside quotes it still reads `#`, `"` and HTML."""
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, entity)
    return text.replace("\n", " ")
