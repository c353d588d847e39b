"""Scene: a folded graph as boxes and arrows, the middle form from which dot and mermaid are written.

Parameters and buffers are named inside the boxes that use them: their arrows would make any graph a hairball. Only a
small graph shows them as boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from plait.graph._fold import fold
from plait.graph._marks import Fold
from plait.graph._model import Graph, Node
from plait.graph._notation import op_name, span, times, value_name, value_type
from plait.views._tree import SMALL, content

BoxKind = Literal["op", "input", "decision", "group"]


@dataclass(frozen=True, slots=True)
class Box:
    """Something to draw; `group` boxes hold others, `parent` is the group around this one."""

    id: str
    kind: BoxKind
    lines: tuple[str, ...]
    parent: str | None
    grad: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """A value that flows; `back` arrows go to the next round of a loop, `asks` lead to a decision."""

    start: str
    end: str
    label: str
    back: bool = False
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """Boxes, groups before what they hold, and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]

    def nested(self) -> Iterator[tuple[int, Box, bool]]:
        """(depth, box, False) for every box inside its group; (depth, group, True) where a group ends."""
        children: dict[str | None, list[Box]] = {}
        for box in self.boxes:
            children.setdefault(box.parent, []).append(box)
        stack = [(1, box, False) for box in reversed(children.get(None, []))]
        while stack:
            depth, box, ends = stack.pop()
            yield depth, box, ends
            if box.kind == "group" and not ends:
                stack.append((depth, box, True))
                stack.extend((depth + 1, child, False) for child in reversed(children.get(box.id, [])))


def scene(graph: Graph) -> Scene:
    """The folded graph as boxes and arrows."""
    small = len(graph.nodes) < SMALL
    boxes: list[Box] = []
    box_of: dict[int, str] = {}  # node -> its box
    decisions: list[tuple[str, Fold]] = []
    place: dict[str, int] = {}
    root = fold(graph)
    inputs = [item for item in _everything(root) if item.kind == "input"]
    stack: list[tuple[Fold, str | None]] = [(child, None) for child in reversed([*inputs, *content(root).children])]
    drawn: set[int] = set()  # inputs stand outside of everything, once
    while stack:
        item, parent = stack.pop()
        name = f"b{len(boxes)}"
        if item.kind == "input":
            if id(item) in drawn:
                continue
            drawn.add(id(item))
        if item.kind in ("frame", "loop"):
            boxes.append(Box(name, "group", _group_lines(item), parent))
            stack.extend((child, name) for child in reversed(item.children))
        elif item.kind in ("op", "input"):
            nodes = [graph.nodes[member] for member in item.members]
            if item.kind == "input" and item.label in ("parameter", "buffer") and not small:
                continue
            boxes.append(Box(name, "op" if item.kind == "op" else "input", _lines(graph, nodes, small), parent,
                             any(graph.values[each].requires_grad for each in nodes[0].outputs)))  # fmt: skip
            place[name] = len(boxes)
            box_of.update(dict.fromkeys(item.members, name))
        elif item.kind == "decision":
            boxes.append(Box(name, "decision", _question(graph, item), parent))
            decisions.append((name, item))
    arrows: dict[tuple[str, str, bool], Arrow] = {}
    for node in graph.nodes:
        end = box_of.get(node.id)
        for edge in node.inputs:
            value = graph.values[edge.value]
            start = box_of.get(value.node)
            if start is None or end is None:
                continue
            back = place[start] >= place[end]
            arrows.setdefault((start, end, back), Arrow(start, end, value_type(value), back))
    for name, item in decisions:
        for member in item.members:
            start = box_of.get(graph.values[graph.decisions[member].value].node)
            if start is not None:
                arrows.setdefault((start, name, False), Arrow(start, name, "", False, True))
    return Scene(tuple(boxes), tuple(arrows.values()))


def _everything(root: Fold) -> list[Fold]:
    found, stack = [], [root]
    while stack:
        item = stack.pop()
        found.append(item)
        stack.extend(reversed(item.children))
    return found


def _group_lines(item: Fold) -> tuple[str, ...]:
    if item.kind == "loop":
        return (item.label, f"x {span(*item.trips)}" if item.trips else "rounds unknown")
    deep = f", calls itself {item.depth} deep" if item.depth > 1 else ""
    return (f"{item.label}{deep}" + (f"  {times(item.count)}" if item.count > 1 else ""),)


def _lines(graph: Graph, nodes: list[Node], small: bool) -> tuple[str, ...]:
    node = nodes[0]
    outputs = [graph.values[each] for each in node.outputs]
    if node.kind == "input":
        return (value_name(graph, outputs[0]), f"{node.op} {value_type(outputs[0])}")
    title = op_name(node.op) + (f"  {times(len(nodes))}" if len(nodes) > 1 else "")
    lines = [title]
    used = [graph.values[edge.value] for edge in node.inputs]
    held = [value_name(graph, each) for each in used if graph.nodes[each.node].op in ("parameter", "buffer")]
    if held and not small:
        lines.append(", ".join(held[:3]) + (", ..." if len(held) > 3 else ""))
    if outputs:
        name = f"{outputs[0].name} " if outputs[0].name else ""
        lines.append(f"{name}{value_type(outputs[0])}" + (f" and {len(outputs) - 1} more" if len(outputs) > 1 else ""))
    site = graph.site_of(node)
    if site is not None:
        lines.append(f"line {site.line}")
    return tuple(lines)


def _question(graph: Graph, item: Fold) -> tuple[str, ...]:
    decisions = [graph.decisions[member] for member in item.members]
    site = graph.site_of(decisions[0])
    asked = (site.expression if site is not None else "") or decisions[0].how
    outcomes = [each.outcome for each in decisions]
    if all(outcome is None for outcome in outcomes):
        return (asked, f"{times(len(decisions))} {decisions[0].how}")
    return (
        asked,
        ", ".join(f"{times(outcomes.count(each))} {each}" for each in (True, False) if each in outcomes),
    )
