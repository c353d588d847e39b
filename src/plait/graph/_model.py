"""The data model: what one step of a program built, frozen. No torch here.

A `Graph` is structure only: it holds nothing that differs between two steps which built the same graph.
What does differ (losses, numbers that were read, times) is a `Step` of the recording and refers to its graph.
Ids are positions in the tuples of the graph, so two runs of one program give equal graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from plait.graph._site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx
    import pandas

NodeKind = Literal["op", "input"]
InputKind = Literal["parameter", "buffer", "leaf", "data", "carried"]
RegionKind = Literal["frame", "loop", "iteration"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A module of the model: its path (`encoder.layers.0`, empty for the outermost) and its class."""

    id: int
    path: str
    module: str


@dataclass(frozen=True, slots=True)
class Region:
    """A frame, a loop, or one iteration of a loop; regions form a tree over the nodes.

    `label` is the function's name or the loop's header. `site` is the call (frame) or None. `index` counts the
    iterations of a loop from 0. `trips` of a loop is how many iterations were seen, or None where an enclosing
    loop without operations of its own makes the count ambiguous.
    """

    id: int
    parent: int | None
    kind: RegionKind
    label: str
    site: int | None
    line: int
    index: int
    trips: int | None


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor at one version. `node` made it, as output number `output`.

    `base` is the value that it is a tensor view of (they share storage), `previous` the value that an in-place
    write replaced. `version` is PyTorch's counter relative to the first version seen in the step. `grad_fn` is the
    backward node that made it and `output_nr` which of that node's outputs it is, as `tensor.grad_fn` and
    `tensor.output_nr`.
    """

    id: int
    node: int
    output: int
    dtype: str
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    leaf: bool
    base: int | None
    previous: int | None
    version: int
    grad_fn: int | None
    output_nr: int
    name: str | None

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        size = DTYPE_BYTES.get(self.dtype, 4)
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Edge:
    """A value used as an argument; `position` is where: `0`, `1.2` (third of a list given as argument 1), `mask`."""

    value: int
    position: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that a backward node keeps. `value` says which one; None for a buffer that no value shows."""

    name: str
    value: int | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class Node:
    """One operation that ran, or one input of the step.

    `op` is PyTorch's name (`linear`, `__add__`), for inputs the `InputKind`. `arguments` shows the arguments that
    are not tensors as they were the first time (`dim=1`). `cut` says why autograd lost the path here, or None.
    `writes` are the values that the operation replaced in place. `in_backward`: it ran while a backward pass was
    under way (a custom Function's backward, a checkpoint's recomputation).
    """

    id: int
    kind: NodeKind
    op: str
    inputs: tuple[Edge, ...]
    outputs: tuple[int, ...]
    site: int | None
    scope: int | None
    region: int | None
    arguments: str
    cut: str | None
    writes: tuple[int, ...]
    saved: tuple[Saved, ...]
    backward: tuple[int, ...]
    grad_mode: bool
    in_backward: bool
    row: int

    @property
    def saved_bytes(self) -> int:
        """Bytes this node keeps for backward; tensors that others keep too are counted here again."""
        return sum(item.nbytes for item in self.saved)


@dataclass(frozen=True, slots=True)
class BackwardNode:
    """A `grad_fn` of autograd: its name, the forward node that made it and its parents as in `next_functions`.

    A parent is (backward node, input number); an `AccumulateGrad` has `leaf`, the value it adds into. A parent made
    before this step shows as None.
    """

    id: int
    name: str
    node: int
    parents: tuple[tuple[int, int] | None, ...]
    leaf: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Python asked a tensor for its value (`how`: bool, item, int, float, index, tolist, numpy, nonzero, ...).

    `outcome` is the bool that was read, None for other reads: their numbers are in `Step.reads[id]`, at the
    decision's own number. `comparison` is its symbol (`>`) when a comparison made the tensor; its two sides are in
    `Step.reads` as well. `moment` orders decisions, backward passes, mode changes and events between two nodes.
    """

    id: int
    how: str
    value: int
    after: int
    site: int | None
    region: int | None
    outcome: bool | None
    comparison: str | None
    moment: int = 0


@dataclass(frozen=True, slots=True)
class ModeChange:
    """Gradient recording was switched (`no_grad`, `enable_grad`, `inference_mode`) after node `after - 1`."""

    after: int
    mode: str
    enabled: bool
    site: int | None
    region: int | None = None
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Backward:
    """One `backward()` or `autograd.grad()` call: its roots, its line, its flags; inputs if it named any.

    `adds`: it added to gradients that an earlier pass left and no update had used (accumulation).
    """

    id: int
    after: int
    how: str
    roots: tuple[int, ...]
    inputs: tuple[int, ...]
    site: int | None
    retain_graph: bool
    create_graph: bool
    region: int | None = None
    moment: int = 0
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is no operation: `optimizer` (a step), `zero_grad`, `clip`, `error`, `thread`; see `_events.py`
    of the recorder for those that only rules ask about, and for their `facts`."""

    after: int
    kind: str
    detail: str
    site: int | None
    values: tuple[int, ...] = ()
    region: int | None = None
    moment: int = 0
    facts: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Hashes:
    """Fingerprints of a graph, equal between runs and machines.

    `shapes`: the same operations on the same sizes. `structure`: sizes aside. `program`: the same code ran,
    loops folded, trip counts and the arms that values chose aside.
    """

    shapes: str
    structure: str
    program: str


@dataclass(frozen=True)
class Graph:
    """What one step built. `legal()` says whether it keeps the rules; `hashes` are its three fingerprints."""

    nodes: tuple[Node, ...]
    values: tuple[Value, ...]
    backward_nodes: tuple[BackwardNode, ...]
    decisions: tuple[Decision, ...]
    backwards: tuple[Backward, ...]
    modes: tuple[ModeChange, ...]
    events: tuple[Event, ...]
    regions: tuple[Region, ...]
    scopes: tuple[Scope, ...]
    sites: tuple[Site, ...]
    hashes: Hashes

    def __len__(self) -> int:
        return len(self.nodes)

    def site_of(self, item: Node | Decision | Backward | ModeChange | Event) -> Site | None:
        """The place in the source, or None where it is not known."""
        return None if item.site is None else self._site_by_id[item.site]

    def scope_of(self, node: Node) -> Scope | None:
        """The module in which a node ran, or None outside of all modules."""
        return None if node.scope is None else self._scope_by_id[node.scope]

    @cached_property
    def _site_by_id(self) -> dict[int, Site]:
        return {site.id: site for site in self.sites}

    @cached_property
    def _scope_by_id(self) -> dict[int, Scope]:
        return {scope.id: scope for scope in self.scopes}

    @cached_property
    def users(self) -> dict[int, tuple[int, ...]]:
        """For every value the nodes that use it, in order."""
        found: dict[int, list[int]] = {value.id: [] for value in self.values}
        for node in self.nodes:
            for edge in node.inputs:
                if not found[edge.value] or found[edge.value][-1] != node.id:
                    found[edge.value].append(node.id)
        return {value: tuple(nodes) for value, nodes in found.items()}

    def legal(self) -> list[str]:
        """Sentences about rules that this graph breaks; empty for every graph that plait recorded."""
        from plait.graph._legal import problems

        return problems(self)

    def find(self, op: str | None = None, *, line: int | None = None, scope: str | None = None) -> list[Node]:
        """Nodes with this op name, source line and module path (each only if given).

        >>> graph.find("linear", scope="head")   # doctest: +SKIP
        """
        from plait.graph._walk import find

        return find(self, op=op, line=line, scope=scope)

    def ancestors(self, node: Node | int) -> list[Node]:
        """Every node from which a value flows into `node`, in order; without `node` itself."""
        from plait.graph._walk import ancestors

        return ancestors(self, node)

    def descendants(self, node: Node | int) -> list[Node]:
        """Every node into which a value of `node` flows, in order; without `node` itself."""
        from plait.graph._walk import descendants

        return descendants(self, node)

    def path(self, start: Node | int, end: Node | int) -> list[Node] | None:
        """A shortest path of nodes along which values flow from `start` to `end`; None if there is none."""
        from plait.graph._walk import path

        return path(self, start, end)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The nodes and edges as a `networkx.MultiDiGraph` (needs networkx)."""
        from plait.graph._convert import to_networkx

        return to_networkx(self)

    def to_pandas(self) -> pandas.DataFrame:
        """One row a node as a `pandas.DataFrame` (needs pandas)."""
        from plait.graph._convert import to_pandas

        return to_pandas(self)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def _repr_html_(self) -> str:
        from plait.graph._convert import to_html

        return to_html(self)

    def __repr__(self) -> str:
        ops = sum(node.kind == "op" for node in self.nodes)
        parts = [
            _count(ops, "op"),
            _count(len(self.nodes) - ops, "input"),
            _count(len(self.decisions), "decision"),
        ]
        if self.backwards:
            parts.append(_count(len(self.backwards), "backward pass", "backward passes"))
        return f"<plait.Graph: {', '.join(parts)}>"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


# Bytes an element takes, by the short names of `_notation.py`.
DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
    "c64": 8, "c128": 16, "u16": 2, "u32": 4, "u64": 8, "f8_e4m3fn": 1, "f8_e5m2": 1,
}  # fmt: skip
