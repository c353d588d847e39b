"""Folds a graph: each place of the program once, with all that happened there over the rounds of its loops.

The rounds of a loop are laid over one another, calls of one function from one place as well, and a function that
calls itself is shown once. What remains is as large as the program, however long it ran.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from plait.graph._marks import Fold, FoldKind
from plait.graph._model import Graph, Region
from plait.graph._site import Site

Sites = Mapping[int, Site]


def _earlier(first: int | None, second: int | None, sites: Sites) -> bool:
    """Whether both places are in one function and the first stands before the second."""
    if first is None or second is None:
        return False
    one, two = sites[first], sites[second]
    return (one.file, one.function) == (two.file, two.function) and one.offset < two.offset


@dataclass(eq=False, slots=True)
class _Place:
    """A fold that is still growing; its children are a linked list, so that inserting costs nothing."""

    kind: FoldKind
    label: str
    site: int | None
    parent: _Place | None
    members: list[int] = field(default_factory=list)
    trips: list[int | None] = field(default_factory=list)
    depth: int = 1
    by_key: dict[Hashable, _Place] = field(default_factory=dict)
    first: _Place | None = None
    next: _Place | None = None

    def child(
        self, key: Hashable, after: _Place | None, kind: FoldKind, label: str, site: int | None, sites: Sites
    ) -> _Place:
        """The child with this key; a new one comes behind `after` (None: at the front).

        What other rounds did behind `after` and stands earlier in the source (the other arm) stays before it.
        """
        found = self.by_key.get(key)
        if found is None:
            found = self.by_key[key] = _Place(kind, label, site, self)
            following = self.first if after is None else after.next
            while following is not None and _earlier(following.site, site, sites):
                after, following = following, following.next
            found.next = following
            if after is None:
                self.first = found
            else:
                after.next = found
        return found


@dataclass(eq=False, slots=True)
class _Round:
    """One frame or one iteration while it runs: where it is in its place, and what it met how often."""

    place: _Place
    last: _Place | None = None
    met: dict[Hashable, int] = field(default_factory=dict)


class _Folder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.root = _Place("step", "", None, None)
        self.rounds: dict[int | None, _Round] = {None: _Round(self.root)}
        self.trunk = _trunk(graph)
        self.depths: dict[int, int] = {}  # of frames whose function calls itself
        # Python writes some expressions twice (the test of a `while`): the first site of a text stands for all.
        first: dict[Hashable, int] = {}
        self.same: dict[int | None, int | None] = {None: None}
        for site in graph.sites:
            text = (site.file, site.line, site.column, site.end_line, site.end_column, site.function)
            self.same[site.id] = site.id if site.column is None else first.setdefault(text, site.id)

    def add_all(self) -> None:
        """Put everything that happened into its place, in order."""
        rounds, same, sites = self.rounds, self.same, self.graph._site_by_id
        for kind, number, label, written, region in _in_order(self.graph):
            round_ = rounds.get(region) or self.round(region)
            site = same[written]
            key: Hashable = (kind, site, label)
            if kind == "input" and site is not None:
                # Made by earlier steps at one place (300 rewards of an episode), used here in no order of their own.
                key, nth = (kind, site, label, self.name_of(number)), 1
            else:
                nth = round_.met[key] = round_.met.get(key, 0) + 1
            place = round_.place.by_key.get((key, nth))
            if place is None:
                place = round_.place.child((key, nth), round_.last, kind, label, site, sites)
            place.members.append(number)
            round_.last = place

    def name_of(self, node: int) -> str | None:
        outputs = self.graph.nodes[node].outputs
        return self.graph.values[outputs[0]].name if outputs else None

    def round(self, number: int | None) -> _Round:
        """Where the content of a region goes; opens the regions around it first."""
        missing = []
        while number not in self.rounds:
            region = self.graph.regions[number]  # type: ignore[index]
            missing.append(region)
            number = region.parent
        for region in reversed(missing):
            self.rounds[region.id] = self.open(region, self.rounds[region.parent])
        return self.rounds[missing[0].id if missing else number]

    def open(self, region: Region, around: _Round) -> _Round:
        sites = self.graph._site_by_id
        if region.kind == "iteration":
            return _Round(around.place)
        if (
            region.kind == "frame"
            and region.label != "<module>"
            and (above := self.same_function(region, around.place)) is not None
        ):
            again = around.place.child(
                ("again", region.label, region.site), around.last, "again", region.label, region.site, sites
            )  # fmt: skip
            again.members.append(region.id)
            around.last = again
            above.depth = max(above.depth, self.depth(region))
            return _Round(above)
        kind: FoldKind = "loop" if region.kind == "loop" else "frame"
        key = (kind, region.label, region.line, region.site)
        nth = around.met[key] = around.met.get(key, 0) + 1
        place = around.place.child((key, nth), around.last, kind, region.label, region.site, sites)
        place.members.append(region.id)
        place.trips.append(region.trips)
        around.last = place
        return _Round(place)

    def depth(self, region: Region) -> int:
        """How many calls of this function are under way, this one included."""
        regions = self.graph.regions
        outer = region.parent
        while outer is not None:
            above = regions[outer]
            if (above.kind, above.label, above.line) == ("frame", region.label, region.line):
                self.depths[region.id] = self.depths.get(outer, 1) + 1
                break
            outer = above.parent
        return self.depths.get(region.id, 1)

    def same_function(self, region: Region, place: _Place | None) -> _Place | None:
        if region.id in self.trunk or region.label == "<module>":
            return None
        while place is not None:
            if place.kind == "frame" and place.label == region.label and place.members[0] not in self.trunk:
                first = self.graph.regions[place.members[0]]
                if first.line == region.line:
                    return place
            place = place.parent
        return None


def _trunk(graph: Graph) -> set[int]:
    """The regions around everything: functions that were under way (a test runner, `main`), no part of the work."""
    regions = graph.regions
    used = {item.region for items in (graph.nodes, graph.decisions, graph.modes, graph.events, graph.backwards)
            for item in items}  # fmt: skip
    shared: list[int] | None = None  # from the outermost to the innermost region around all so far
    for region in used - {None}:
        path = []
        while region is not None:
            path.append(region)
            region = regions[region].parent
        path.reverse()
        if shared is None:
            shared = path
        else:
            shared = [mine for mine, other in zip(shared, path) if mine == other]
        if not shared:
            break
    while shared and regions[shared.pop()].kind != "frame":
        pass  # the innermost of them is where the work is
    return set(shared or ())


def fold(graph: Graph) -> Fold:
    """The whole graph as one fold of kind `step`.

    Loops and functions hold their content as children, in the order of the program; an `if` whose arms ran in
    different rounds shows both, each with its own count.
    """
    folder = _Folder(graph)
    folder.add_all()
    return _freeze(folder.root)


def _in_order(graph: Graph) -> Iterator[tuple[FoldKind, int, str, int | None, int | None]]:
    """Everything that happened, in order: (kind, id, label, site, region)."""
    others: list[tuple[int, int, FoldKind, int, str, int | None, int | None]] = []
    for number, mode in enumerate(graph.modes):
        label = "gradients on" if mode.enabled else f"gradients off ({mode.mode})"
        others.append((mode.after, mode.moment, "mode", number, label, mode.site, mode.region))
    for item in graph.decisions:
        others.append((item.after, item.moment, "decision", item.id, item.how, item.site, item.region))
    for number, event in enumerate(graph.events):
        others.append((event.after, event.moment, "event", number, event.kind, event.site, event.region))
    for each in graph.backwards:
        others.append((each.after, each.moment, "backward", each.id, each.how, each.site, each.region))
    others.sort(key=lambda item: item[:2], reverse=True)
    for node in graph.nodes:
        while others and others[-1][0] <= node.id:
            yield others.pop()[2:]
        yield node.kind, node.id, node.op, node.site, node.region
    while others:
        yield others.pop()[2:]


def _freeze(root: _Place) -> Fold:
    """The finished tree, from the leaves up: children before parents, without recursion."""
    done: dict[_Place, Fold] = {}
    stack: list[tuple[_Place, bool]] = [(root, False)]
    while stack:
        place, ready = stack.pop()
        children = []
        child = place.first
        while child is not None:
            children.append(child)
            child = child.next
        if not ready:
            stack.append((place, True))
            stack.extend((child, False) for child in children)
            continue
        known = [trips for trips in place.trips if trips is not None]
        trips = (min(known), max(known)) if known and len(known) == len(place.trips) else None
        done[place] = Fold(
            place.kind, place.label, tuple(place.members), place.site, trips, place.depth,
            tuple(done.pop(child) for child in children),
        )  # fmt: skip
    return done[root]
