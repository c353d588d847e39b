"""A scene in the language of Mermaid, which many pages and editors draw in place."""

from __future__ import annotations

from plait.graph._model import Graph
from plait.views._scene import Box, scene


def mermaid(graph: Graph) -> str:
    """The folded graph as a Mermaid flowchart."""
    drawn = scene(graph)
    children: dict[str | None, list[Box]] = {}
    for box in drawn.boxes:
        children.setdefault(box.parent, []).append(box)
    lines = ["flowchart TD"]
    stack: list[Box | str] = list(reversed(children.get(None, [])))
    depth = 1
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            depth -= 1
            lines.append("  " * depth + item)
            continue
        label = "<br/>".join(_escape(line) for line in item.lines)
        if item.kind == "group":
            lines.append("  " * depth + f'subgraph {item.id}["{label}"]')
            depth += 1
            stack.append("end")
            stack.extend(reversed(children.get(item.id, [])))
        else:
            before, after = {"op": ("[", "]"), "input": ("([", "])"), "decision": ("{", "}")}[item.kind]
            lines.append("  " * depth + f'{item.id}{before}"{label}"{after}')
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
