"""How findings spell lines, expressions, values and counts."""

from __future__ import annotations

import os
import re

from plait.graph import Graph, Node, Site, Test
from plait.graph._notation import node_number, number, op_name, plural, shorten, size, value_name

_LEAVES = re.compile(r"(^|:\s*)(break|return)\b")

__all__ = [
    "at",
    "code",
    "leaves_loop",
    "listed",
    "name",
    "number",
    "op_name",
    "path_of",
    "plural",
    "says",
    "size",
    "value_name",
]


def path_of(file: str) -> str:
    """The file as a person would name it: relative to the current folder where it is inside."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") or not os.path.isabs(file) else relative


def at(site: Site | None) -> str:
    """` at train.py:31`, or nothing."""
    return "" if site is None else f" at {path_of(site.file)}:{site.line}"


def code(text: str, width: int = 70) -> str:
    """An expression in backticks, in one line."""
    return f"`{shorten(' '.join(text.split()), width)}`"


def says(graph: Graph, node: Node) -> str:
    """What a node is in the program: its expression, or the name of the operation."""
    site = graph.site_of(node)
    if site is not None and site.expression:
        return code(site.expression)
    return f"`{op_name(node.op)}`" if node.kind == "op" else node_number(node)


def name(graph: Graph, value: int) -> str:
    """A value as the program calls it: its name, or the expression that made it."""
    found = graph.values[value]
    if found.name:
        return f"`{found.name}`"
    node = graph.nodes[found.node]
    site = graph.site_of(node)
    if site is not None and site.expression:
        return code(site.expression)
    return f"an unnamed {node.op}" if node.kind == "input" else f"the result of `{op_name(node.op)}`"


def leaves_loop(test: Test) -> bool:
    """Whether an arm of a test ends the loop or the function at once."""
    return any(_LEAVES.search(text) for text in (test.true_text, test.false_text) if text)


def listed(names: list[str], most: int = 3) -> str:
    """`a`, `b` and 4 more."""
    unique = list(dict.fromkeys(names))
    if len(unique) > most:
        return f"{', '.join(unique[:most])} and {len(unique) - most} more"
    return " and ".join([", ".join(unique[:-1]), unique[-1]]) if len(unique) > 1 else "".join(unique)
