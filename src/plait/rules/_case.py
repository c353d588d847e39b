"""What rules look at: `Run`, a whole recording, and `Case`, one of its distinct graphs with what is asked of it often.

Every answer is worked out once a graph and kept: thirty rules ask the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from plait.graph import Backward, Graph, Node, Region, Site, Value
from plait.graph._walk import all_sources
from plait.recording import Recording, Step
from plait.recording._floats import floating
from plait.rules._rule import Category, Finding, Parting, Where

BUDGET = 30_000  # rows of graphs that are looked at; of the others only the numbers of their steps
FEW = 5  # steps that a finding names


@dataclass(frozen=True, slots=True)
class StepLine:
    """The numbers of one step that rules need, without its reads."""

    id: int
    graph: int | None
    kind: str
    loss: float | None
    grad_norm: float | None
    complete: bool


def _step_line(row: Any) -> StepLine:
    number, graph, kind, loss, grad_norm, complete = row
    return StepLine(number, graph, kind, floating(loss), floating(grad_norm), bool(complete))


class Run:
    """A recording as rules see it."""

    def __init__(self, recording: Recording, budget: int = BUDGET, parting: Parting | None = None) -> None:
        self.recording = recording
        self.parting = parting
        self.rule: tuple[str, Category] = ("", "suspicious")  # set before each rule is called
        self.steps = [
            _step_line(row)
            for row in recording._all("SELECT id, graph, kind, loss, grad_norm, complete FROM step ORDER BY id")
        ]
        self.steps_of: dict[int, list[int]] = {}
        for step in self.steps:
            if step.graph is not None:
                self.steps_of.setdefault(step.graph, []).append(step.id)
        self._cases: dict[int, Case] = {}
        self.graphs = self._choose(budget)

    def _choose(self, budget: int) -> list[int]:
        """The graphs to look at, in the order of their first steps: one of each program first, then by frequency."""
        variants = self.recording.variants
        order: dict[int, None] = {}
        programs: dict[int, Any] = {}
        for variant in variants:
            ends = programs.setdefault(variant.program, [variant, variant, variant])
            if variant.nodes < ends[1].nodes:
                ends[1] = variant
            if variant.nodes > ends[2].nodes:
                ends[2] = variant
        for ends in programs.values():
            for variant in ends:
                order.setdefault(variant.graph)
        last = [step.graph for step in self.steps[-3:] if step.graph is not None]
        for graph in last:
            order.setdefault(graph)
        for variant in sorted(variants, key=lambda each: -each.steps):
            order.setdefault(variant.graph)
        size = {variant.graph: variant.nodes + variant.decisions + 8 for variant in variants}
        found: list[int] = []
        for graph in order:
            budget -= size.get(graph, 0)
            if budget < 0 and found:
                break
            found.append(graph)
        first = {graph: steps[0] for graph, steps in self.steps_of.items()}
        return sorted(found, key=lambda graph: first.get(graph, 0))

    @property
    def partial(self) -> str | None:
        """That only a part of a very varied run is looked at; None if all of it is."""
        looked_at, known = len(self.graphs), len(self.steps_of)
        if looked_at >= known:
            return None
        steps = sum(len(self.steps_of.get(graph, ())) for graph in self.graphs)
        total = sum(len(each) for each in self.steps_of.values())
        return (
            f"Only {looked_at:,} of the {known:,} distinct graphs of the run were looked at ({steps:,} of {total:,}"
            " steps): the smallest and the largest of each program, the last ones and the most frequent."
        )

    @cached_property
    def cases(self) -> list[Case]:
        """The graphs that are looked at."""
        return [self.case(graph) for graph in self.graphs]

    def case(self, graph: int) -> Case:
        """One graph with its answers."""
        if graph not in self._cases:
            self._cases[graph] = Case(self, graph, self.recording.graph_number(graph))
        return self._cases[graph]

    def sequence(self, most: int = 400) -> list[tuple[StepLine, Case]]:
        """The steps whose graph is looked at, in order, at most the first `most` of them."""
        looked_at = set(self.graphs)
        chosen = [step for step in self.steps if step.graph in looked_at][:most]
        return [(step, self.case(step.graph)) for step in chosen if step.graph is not None]

    @cached_property
    def numbers(self) -> dict[int, Step]:
        """Steps with their reads, the first of each graph that is looked at."""
        return {graph: self.recording.steps[self.steps_of[graph][0]] for graph in self.graphs if graph in self.steps_of}

    def finding(
        self, fact: str, consequence: str, cure: str, places: Iterable[Where | None], *, steps: Sequence[int] = (),
        graph: int | None = None, nodes: Iterable[int] = (), count: int | None = None,
        numbers: dict[str, float | int | str] | None = None, **facts: float | int | str,
    ) -> Finding:  # fmt: skip
        """A finding of the rule that is asked now; places that are not known are left out."""
        name, category = self.rule
        return Finding(
            name, category, _capital(fact), _capital(consequence), _capital(cure),
            tuple(dict.fromkeys(each for each in places if each is not None)), graph, tuple(nodes),
            tuple(steps[:FEW]), len(steps) if count is None else count, facts if numbers is None else numbers,
        )  # fmt: skip


@dataclass(eq=False)
class Case:
    """One distinct graph, the steps that built it, and what rules ask of it."""

    run: Run
    number: int
    graph: Graph
    _leaves: dict[tuple[int, int], Reach] = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        """The steps that built it."""
        return self.run.steps_of.get(self.number, [])

    # -- saying ---------------------------------------------------------------------------------------------------

    def finding(
        self, fact: str, consequence: str, cure: str, nodes: Iterable[Node | int],
        *places: tuple[str, Site | None] | Where | None, **facts: float | int | str,
    ) -> Finding | None:  # fmt: skip
        """A finding of the rule that is asked now, about these nodes; None where no line of the program is known."""
        found = [each if isinstance(each, Where) or each is None else Where.of(*each) for each in places]
        if not any(found):
            return None
        return self.run.finding(
            fact, consequence, cure, found, steps=self.steps, graph=self.number,
            nodes=[each if isinstance(each, int) else each.id for each in nodes], numbers=facts,
        )  # fmt: skip

    def site(self, item: Any) -> Site | None:
        """The place of a node, decision, backward pass or event."""
        return self.graph.site_of(item)

    def maker(self, value: int | Value) -> Node:
        """The node that made a value."""
        found = self.graph.values[value] if isinstance(value, int) else value
        return self.graph.nodes[found.node]

    # -- values and nodes -----------------------------------------------------------------------------------------

    @cached_property
    def sources(self) -> list[tuple[int, ...]]:
        """For every node the nodes whose values it uses."""
        return all_sources(self.graph)

    @cached_property
    def users(self) -> list[list[int]]:
        """For every node the nodes that use its values."""
        found: list[list[int]] = [[] for _ in self.graph.nodes]
        for node, above in enumerate(self.sources):
            for source in above:
                found[source].append(node)
        return found

    def above(self, *starts: int) -> set[int]:
        """Every node whose value flows into one of these, themselves included."""
        seen, stack = set(starts), list(starts)
        while stack:
            for source in self.sources[stack.pop()]:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return seen

    def below(self, *starts: int) -> set[int]:
        """Every node into which a value of one of these flows, themselves included."""
        seen, stack = set(starts), list(starts)
        while stack:
            for user in self.users[stack.pop()]:
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
        return seen

    @cached_property
    def roots(self) -> list[int]:
        """For every value the value whose memory it lives in."""
        found: list[int] = []
        for value in self.graph.values:
            step = value.base if value.base is not None else value.previous
            found.append(value.id if step is None else found[step])
        return found

    @cached_property
    def trained(self) -> list[bool]:
        """For every node whether a leaf that asks for gradients flows into it, cut or not."""
        found: list[bool] = []
        values = self.graph.values
        for node in self.graph.nodes:
            own = any(values[out].requires_grad for out in node.outputs)
            found.append(own or any(found[source] for source in self.sources[node.id]))
        return found

    @cached_property
    def carried(self) -> list[tuple[Node, int]]:
        """The inputs that an earlier step made with a graph of its own, with the places where it did."""
        values = self.graph.values
        return [
            (node, node.site) for node in self.graph.nodes
            if node.kind == "input" and node.op == "carried" and node.site is not None
            and values[node.outputs[0]].requires_grad
        ]  # fmt: skip

    # -- gradients ------------------------------------------------------------------------------------------------

    def reach(self, value: int) -> Reach:
        """What a backward pass from this value reaches."""
        grad_fn = self.graph.values[value].grad_fn
        key = (-1, value) if grad_fn is None else (0, grad_fn)
        if key not in self._leaves:
            self._leaves[key] = self._walk(value, grad_fn)
        return self._leaves[key]

    def _walk(self, value: int, grad_fn: int | None) -> Reach:
        graph = self.graph
        if grad_fn is None:
            root = graph.values[value]
            return Reach(
                frozenset(), frozenset({self.first(value)}) if root.leaf and root.requires_grad else frozenset()
            )
        seen, stack = {grad_fn}, [grad_fn]
        leaves: set[int] = set()
        old = False
        while stack:
            node = graph.backward_nodes[stack.pop()]
            if node.leaf is not None:
                leaves.add(self.first(node.leaf))
            for parent in node.parents:
                if parent is None:
                    old = True
                elif parent[0] not in seen:
                    seen.add(parent[0])
                    stack.append(parent[0])
        return Reach(frozenset(seen), frozenset(leaves), old)

    def first(self, value: int) -> int:
        """The first version of a value."""
        while (previous := self.graph.values[value].previous) is not None:
            value = previous
        return value

    @cached_property
    def leaf_users(self) -> dict[int, list[int]]:
        """For the first version of every leaf that asks for gradients the nodes that use any version of it."""
        found: dict[int, list[int]] = {}
        for node in self.graph.nodes:
            for edge in node.inputs:
                value = self.graph.values[edge.value]
                if value.leaf and value.requires_grad:
                    users = found.setdefault(self.first(edge.value), [])
                    if not users or users[-1] != node.id:
                        users.append(node.id)
        return found

    @cached_property
    def reached_nodes(self) -> set[int]:
        """The nodes whose backward nodes some backward pass of the step reaches."""
        found: set[int] = set()
        for each in self.graph.backwards:
            for root in each.roots:
                found.update(self.graph.backward_nodes[number].node for number in self.reach(root).nodes)
        return found

    @cached_property
    def reached_leaves(self) -> set[int]:
        """The leaves (first versions) that some backward pass of the step reaches."""
        return {leaf for each in self.graph.backwards for root in each.roots for leaf in self.reach(root).leaves}

    def failed(self, backward: Backward) -> bool:
        """Whether this backward pass raised."""
        return any(
            event.kind == "error" and event.after >= backward.after and event.site == backward.site
            for event in self.graph.events
        )

    # -- regions --------------------------------------------------------------------------------------------------

    def regions_above(self, region: int | None) -> list[Region]:
        """A region and the regions around it, the innermost first."""
        found = []
        while region is not None:
            each = self.graph.regions[region]
            found.append(each)
            region = each.parent
        return found

    @cached_property
    def loops(self) -> dict[int, list[list[Node]]]:
        """For every loop region its iterations, each with the nodes that ran in it (inner frames included)."""
        regions = self.graph.regions
        chain: dict[int | None, tuple[tuple[int, int], ...]] = {None: ()}
        for region in regions:
            above = chain[region.parent]
            chain[region.id] = (*above, (region.parent, region.index)) if region.kind == "iteration" else above  # type: ignore[arg-type]
        found: dict[int, dict[int, list[Node]]] = {}
        for node in self.graph.nodes:
            if node.kind == "op":
                for loop, index in chain.get(node.region, ()):
                    found.setdefault(loop, {}).setdefault(index, []).append(node)
        return {loop: [rounds[index] for index in sorted(rounds)] for loop, rounds in found.items()}


@dataclass(frozen=True, slots=True)
class Reach:
    """Backward nodes and leaves (first versions) that a pass reaches; `old`: it leaves the step."""

    nodes: frozenset[int]
    leaves: frozenset[int]
    old: bool = False


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if not text.startswith("`") else text
