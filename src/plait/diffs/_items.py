"""A graph as a list of what happened, and when two things that happened count as the same.

Two runs of one source are compared place by place. Between two versions of a source lines move and expressions are
reworded, so there it is the operation, the module and the function that count.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from plait.diffs._sides import Side
from plait.graph import Decision, Graph, Node, Site
from plait.graph._notation import op_name


@dataclass(frozen=True)
class Item:
    """An operation, an input, a decision, a backward pass or an event, with the key under which it is compared."""

    kind: str
    key: Hashable
    node: Node | None
    decision: Decision | None
    site: Site | None
    what: str


def same_source(a: Side, b: Side) -> bool:
    """Whether both ran the same text (files that both have; graphs without text count as the same source)."""
    names_a = {_base(file): text for file, text in a.sources.items()}
    names_b = {_base(file): text for file, text in b.sources.items()}
    common = names_a.keys() & names_b.keys()
    if not common:
        return not (names_a and names_b)
    return all(names_a[name] == names_b[name] for name in common)


def items(graph: Graph, exact: bool) -> list[Item]:
    """Everything that happened, in order. `exact`: places count, not only what ran."""
    found: list[tuple[int, int, int, Item]] = []
    for node in graph.nodes:
        found.append((node.id, 1, 0, _of_node(graph, node, exact)))
    for decision in graph.decisions:
        site = graph.site_of(decision)
        key: Hashable = ("decision", decision.how, decision.comparison, _place(site, exact))
        item = Item("decision", key, None, decision, site, _text(site, decision.how))
        found.append((decision.after, 0, decision.moment, item))
    for backward in graph.backwards:
        site = graph.site_of(backward)
        item = Item(
            "backward", ("backward", backward.how, _place(site, exact)), None, None, site, _text(site, backward.how)
        )
        found.append((backward.after, 0, backward.moment, item))
    for event in graph.events:
        if event.kind == "optimizer":
            site = graph.site_of(event)
            key = ("event", event.kind, _place(site, exact))
            found.append((event.after, 0, event.moment, Item("event", key, None, None, site, _text(site, event.kind))))
    found.sort(key=lambda each: each[:3])
    return [each for *_, each in found]


def _of_node(graph: Graph, node: Node, exact: bool) -> Item:
    site = graph.site_of(node)
    scope = graph.scope_of(node)
    if node.kind == "input":
        value = graph.values[node.outputs[0]]
        named = value.name if node.op in ("parameter", "buffer") else None
        return Item("input", ("input", node.op, named, None), node, None, site, value.name or node.op)
    path = "" if scope is None else scope.path
    key = ("op", op_name(node.op), path, _place(site, exact), node.in_backward)
    return Item("op", key, node, None, site, _text(site, op_name(node.op)))


def _place(site: Site | None, exact: bool) -> Hashable:
    if site is None:
        return None
    if exact:
        return _base(site.file), site.line, site.column, site.function
    return site.function


def _text(site: Site | None, otherwise: str) -> str:
    return site.expression if site is not None and site.expression else otherwise


def _base(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1]
