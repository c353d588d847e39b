"""How values and lines are spelled in notes, and how a value is followed through views, writes and windows."""

from __future__ import annotations

from collections.abc import Iterator

from plait.graph import Backward, Decision, Event, Graph, ModeChange, Node, Site, Value
from plait.graph._notation import op_name, shorten, value_name
from plait.recording import Facts, Failure, Place, Window
from plait.recording._failure import Category, path_of

Key = tuple[object, ...]


def place(site: Site | None, role: str) -> Place | None:
    """A site as a place of a failure."""
    return None if site is None else Place(role, site.file, site.line, site.expression)


def at(site: Site | None) -> str:
    """` at train.py:31`, or nothing."""
    return "" if site is None else f" at {path_of(site.file)}:{site.line}"


def code(text: str) -> str:
    """An expression in backticks, in one line."""
    return f"`{shorten(' '.join(text.split()), 70)}`"


def says(site: Site | None, otherwise: str) -> str:
    """The expression of a site in backticks, or the words given."""
    return code(site.expression) if site is not None and site.expression else otherwise


def name(graph: Graph, value: int) -> str:
    """A value as the program calls it: its name, or the expression that made it."""
    found = graph.values[value]
    if found.name:
        return f"`{found.name}`"
    site = graph.site_of(graph.nodes[found.node])
    return f"the result of {says(site, f'`{op_name(graph.nodes[found.node].op)}`')}"


def made(graph: Graph, value: int) -> Site | None:
    """Where a value was made."""
    return graph.site_of(graph.nodes[graph.values[value].node])


def failure(
    facts: Facts, cause: str, fact: str, consequence: str, cure: str, *places: Place | None,
    category: Category = "correctness",
) -> Failure:  # fmt: skip
    """A failure; the places that are not known are left out."""
    return Failure(
        cause, category, facts.error, facts.call, facts.step, _capital(fact), _capital(consequence), cure,
        tuple(each for each in places if each is not None),
    )  # fmt: skip


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def root(graph: Graph, value: int) -> int:
    """The value whose memory a value lives in: views and writes followed back."""
    while True:
        found = graph.values[value]
        step = found.base if found.base is not None else found.previous
        if step is None:
            return value
        value = step


def storage(windows: tuple[Window, ...], window: int, value: int) -> Key:
    """One key for all values on the same memory, in all windows."""
    while True:
        value = root(windows[window].graph, value)
        origin = windows[window].origins.get(value)
        if origin is None:
            number = windows[window].storages.get(value)
            return ("memory", number) if number is not None else ("value", window, value)
        window, value = origin


def writes(windows: tuple[Window, ...], window: int, after: int) -> Iterator[tuple[int, Node, int]]:
    """(window, node, value written) of every in-place write after node `after` of `window`, in order."""
    for index in range(window, len(windows)):
        graph = windows[index].graph
        for node in graph.nodes[after + 1 if index == window else 0 :]:
            for value in node.writes:
                yield index, node, value


def events(windows: tuple[Window, ...], window: int, after: int, kind: str) -> Iterator[tuple[int, Event]]:
    """(window, event) of every event of this kind after node `after` of `window`, in order."""
    for index in range(window, len(windows)):
        for event in windows[index].graph.events:
            if event.kind == kind and (index > window or event.after > after):
                yield index, event


def through_data(graph: Graph, value: int) -> bool:
    """Whether a value shares memory by `.data`, whose writes autograd does not count."""
    while True:
        found = graph.values[value]
        if graph.nodes[found.node].op == "data":
            return True
        step = found.previous if found.previous is not None else found.base
        if step is None:
            return False
        value = step


def shared_loop(one: Site | None, other: Site | None) -> bool:
    """Whether two places stand in one loop of one function."""
    if one is None or other is None or one.file != other.file or one.function != other.function:
        return False
    return bool(set(one.loops) & set(other.loops))


def deciding(graph: Graph, site: Site | None, before: int) -> Decision | None:
    """The last decision before node `before` that chose the arm in which `site` stands, or led past another arm."""
    if site is None:
        return None
    wanted = {(branch.line, branch.column): branch.arm for branch in site.branches}
    fallen = None
    for decision in reversed(graph.decisions):
        where = graph.site_of(decision)
        if decision.after > before or where is None or where.test is None or where.file != site.file:
            continue
        if (where.test.line, where.test.column) in wanted:
            return decision
        if fallen is None and where.function == site.function and where.test.line < site.line:
            fallen = decision  # `if a: return ...` and then the site: it runs because `a` did not hold
    return fallen


Item = Node | Decision | Backward | ModeChange | Event
__all__ = [
    "Item", "Key", "Value", "at", "code", "deciding", "events", "failure", "made", "name", "path_of", "place", "root",
    "says", "shared_loop", "storage", "through_data", "value_name", "writes",
]  # fmt: skip
