"""A scene in the language of Graphviz."""

from __future__ import annotations

from plait.graph._model import Graph
from plait.views._scene import scene

_SHAPES = {"op": "box", "input": "ellipse", "decision": "diamond"}


def dot(graph: Graph) -> str:
    """The folded graph for `dot`: functions and loops as clusters, decisions as diamonds, rounds as dashed arrows."""
    drawn = scene(graph)
    filled = {box.parent for box in drawn.boxes}
    lines = [
        "digraph plait {",
        '  graph [fontname="sans-serif" fontsize=11 rankdir=TB];',
        '  node [fontname="sans-serif" fontsize=10];',
        '  edge [fontname="sans-serif" fontsize=9];',
    ]
    for depth, box, ends in drawn.nested():
        space = "  " * depth
        if ends:
            lines.append(f"{space}}}")
            continue
        label = "\\n".join(_escape(line) for line in box.lines)
        if box.kind == "group":
            lines.append(f"{space}subgraph cluster_{box.id} {{")
            lines.append(f'{space}  label="{label}"; style=rounded;')
            if box.id not in filled:  # an empty cluster is not drawn
                lines.append(f'{space}  {box.id} [label="" shape=point];')
        else:
            bold = " style=bold" if box.grad else ""
            lines.append(f'{space}{box.id} [label="{label}" shape={_SHAPES[box.kind]}{bold}];')
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
