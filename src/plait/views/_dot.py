"""A scene in the language of Graphviz."""

from __future__ import annotations

from plait.graph._model import Graph
from plait.views._scene import Box, scene

_SHAPES = {"op": "box", "input": "ellipse", "decision": "diamond"}


def dot(graph: Graph) -> str:
    """The folded graph for `dot`: functions and loops as clusters, decisions as diamonds, rounds as dashed arrows."""
    drawn = scene(graph)
    children: dict[str | None, list[Box]] = {}
    for box in drawn.boxes:
        children.setdefault(box.parent, []).append(box)
    lines = [
        "digraph plait {",
        '  graph [fontname="sans-serif" fontsize=11 rankdir=TB];',
        '  node [fontname="sans-serif" fontsize=10];',
        '  edge [fontname="sans-serif" fontsize=9];',
    ]
    stack: list[Box | str] = list(reversed(children.get(None, [])))
    depth = 1
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            depth -= 1
            lines.append("  " * depth + item)
            continue
        label = "\\n".join(_escape(line) for line in item.lines)
        if item.kind == "group":
            lines.append("  " * depth + f"subgraph cluster_{item.id} {{")
            depth += 1
            lines.append("  " * depth + f'label="{label}"; style=rounded;')
            if not children.get(item.id):  # an empty cluster is not drawn
                lines.append("  " * depth + f'{item.id} [label="" shape=point];')
            stack.append("}")
            stack.extend(reversed(children.get(item.id, [])))
        else:
            bold = " style=bold" if item.grad else ""
            lines.append("  " * depth + f'{item.id} [label="{label}" shape={_SHAPES[item.kind]}{bold}];')
    for arrow in drawn.arrows:
        style = [f'label="{_escape(arrow.label)}"'] if arrow.label else []
        if arrow.back:
            style += ["style=dashed", "constraint=false"]
        elif arrow.asks:
            style.append("style=dotted")
        lines.append(f"  {arrow.start} -> {arrow.end}" + (f" [{' '.join(style)}]" if style else "") + ";")
    return "\n".join([*lines, "}"])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
