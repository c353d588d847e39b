"""GraphBuilder: turns the rows of one step into a frozen `Graph`. The only mutable thing of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plait.graph._course import Course, course, moves_of
from plait.graph._make import maker
from plait.graph._model import (
    Backward,
    BackwardNode,
    Decision,
    Edge,
    Event,
    Graph,
    Hashes,
    ModeChange,
    Node,
    Saved,
    Scope,
    Value,
)
from plait.graph._rows import (
    AliasRow,
    BackwardRow,
    EventRow,
    InputRow,
    ModeRow,
    OpRow,
    ParentRow,
    ReadRow,
    Reference,
    Row,
    TensorType,
)
from plait.graph._shape import HashBuilder
from plait.graph._site import Site

Types = Mapping[int, TensorType] | Sequence[TensorType]

# Of these a large graph holds hundreds of thousands.
_node, _value, _backward_node = maker(Node), maker(Value), maker(BackwardNode)
_edge, _saved, _decision = maker(Edge), maker(Saved), maker(Decision)
_LATER = BackwardNode(-1, "", -1, (), None)


class GraphBuilder:
    """Builds one graph: `add` every row of the step in order, then `finish`.

    >>> from plait.graph._rows import InputRow, TensorType
    >>> builder = GraphBuilder([TensorType("f32", (3,), "cpu", False, True)], {}, {})
    >>> builder.add(0, InputRow("data", 0, "x", None))
    >>> builder.finish()
    <plait.Graph: 0 ops, 1 input, 0 decisions>
    """

    def __init__(
        self, types: Types, sites: Mapping[int, Site], scopes: Mapping[int, Scope],
        hashes: Hashes | None = None, course: Course | None = None,
    ) -> None:  # fmt: skip
        self._types = types
        self._sites = sites
        self._scopes = scopes
        self._tokens: list[int] = []
        self._rows: dict[int, Row] = {}
        self._course = course
        self._place = 0
        self._inputs: list[int] = []  # value of the k-th input
        self._made: dict[int, tuple[int, ...]] = {}  # place -> values
        self._node_at: dict[int, int] = {}  # place -> node
        self._grads_at: dict[int, tuple[int, ...]] = {}  # place -> backward nodes
        self._accumulate: dict[int, int] = {}  # leaf value -> its AccumulateGrad
        self._nodes: list[Node] = []
        self._values: list[Value] = []
        self._backward_nodes: list[BackwardNode] = []
        self._decisions: list[Decision] = []
        self._backwards: list[Backward] = []
        self._modes: list[ModeChange] = []
        self._events: list[Event] = []
        self._named: tuple[int | None, int | None, int] | None = None  # site, region, value of the last named result
        self._hashes = hashes
        self._hasher = HashBuilder(types, sites) if hashes is None else None

    def add(self, number: int, row: Row) -> None:
        """Add the next row of the step; `number` is its number in the recording."""
        if self._hasher is not None:
            self._hasher.add(row)
        self._tokens.append(number)
        self._rows[number] = row

    def _take(self, number: int, row: Row, region: int | None) -> None:
        match row:
            case InputRow():
                self._input(number, row)
            case ReadRow():
                self._decisions.append(
                    _decision(
                        len(self._decisions), row.how, self._value(row.value), len(self._nodes), row.site,
                        region, row.outcome, row.comparison, self._place,
                    )
                )  # fmt: skip
            case ModeRow():
                self._modes.append(ModeChange(len(self._nodes), row.mode, row.enabled, row.site, region, self._place))
            case AliasRow():
                self._alias(row)
            case BackwardRow():
                roots = tuple(self._value(each) for each in row.roots)
                inputs = tuple(self._value(each) for each in row.inputs)
                self._backwards.append(
                    Backward(
                        len(self._backwards), len(self._nodes), row.how, roots, inputs, row.site,
                        row.retain_graph, row.create_graph, region, self._place, row.adds,
                    )
                )  # fmt: skip
            case EventRow():
                values = tuple(self._value(each) for each in row.values)
                self._events.append(
                    Event(len(self._nodes), row.what, row.detail, row.site, values, region, self._place, row.facts)
                )

    def finish(self) -> Graph:
        """The graph. The builder must not be used after this."""
        tokens, rows = self._tokens, self._rows
        # Which rows are one execution of their place shows only in what follows them.
        way = self._course or course(tokens, rows, moves_of(tokens, rows), self._sites)
        for self._place, (number, region) in enumerate(zip(tokens, way.region)):
            row = rows[number]
            if type(row) is OpRow:  # nearly all of them
                self._op(number, row, region)
            else:
                self._take(number, row, region)
        with_sites = (self._nodes, self._decisions, self._backwards, self._modes, self._events, way.regions)
        used_sites = {item.site for items in with_sites for item in items}
        used_scopes = {node.scope for node in self._nodes}
        hashes = self._hashes or (self._hasher.finish() if self._hasher is not None else Hashes("", "", ""))
        return Graph(
            tuple(self._nodes), tuple(self._values), tuple(self._backward_nodes), tuple(self._decisions),
            tuple(self._backwards), tuple(self._modes), tuple(self._events), way.regions,
            tuple(self._scopes[each] for each in sorted(s for s in used_scopes if s is not None)),
            tuple(self._sites[each] for each in sorted(s for s in used_sites if s is not None)), hashes,
        )  # fmt: skip

    def _value(self, reference: Reference) -> int:
        distance, output = reference
        if distance < 0:
            return self._inputs[-distance - 1]
        return self._made[self._place - distance][output]

    def _input(self, number: int, row: InputRow) -> None:
        node = len(self._nodes)
        value = self._new_value(node, 0, row.type, None, None, None, 0, row.name)
        self._inputs.append(value)
        self._made[self._place] = (value,)
        self._node_at[self._place] = node
        self._nodes.append(
            Node(
                node,
                "input",
                row.what,
                (),
                (value,),
                row.site,
                None,
                None,
                "",
                None,
                (),
                (),
                (),
                True,
                False,
                number,
            )
        )

    def _op(self, number: int, row: OpRow, region: int | None) -> None:
        # Taken apart at once: this runs for every operation of a graph.
        (op, where, scope, grad_mode, in_backward, references, positions, constants, made, writes, cut, saved,
         backward, _) = row  # fmt: skip
        place, known, inputs, values = self._place, self._made, self._inputs, self._values
        node, first, first_grad = len(self._nodes), len(values), len(self._backward_nodes)
        arguments = [
            inputs[-distance - 1] if distance < 0 else known[place - distance][output]
            for distance, output in references
        ]
        self._node_at[place] = node
        target = None if where is None or len(made) != 1 else self._sites[where].target
        index = 0
        for kind, own_grad, base_of, replaces, nth in made:
            grad_fn = None if own_grad is None else first_grad + own_grad
            if replaces is not None:
                target = self._new_version(row, node, index, arguments[replaces], grad_fn, target)
            else:
                dtype, shape, device, requires_grad, leaf = self._types[kind]
                values.append(
                    _value(first + index, node, index, dtype, tuple(shape), device, requires_grad, leaf,
                           None if base_of is None else arguments[base_of], None, 0, grad_fn, nth, target)
                )  # fmt: skip
            index += 1
        if target is not None:
            self._unname(where, region)
            self._named = where, region, first
        outputs = known[place] = (first,) if index == 1 else tuple(range(first, first + index))
        kept = tuple([
            _saved(name, arguments[which] if source == "argument" else outputs[which] if source == "output" else None,
                   nbytes)
            for name, source, which, nbytes in saved
        ]) if saved else ()  # fmt: skip
        self._nodes.append(
            _node(
                node, "op", op, tuple(map(_edge, arguments, positions)), outputs, where, scope, region, constants, cut,
                tuple([arguments[index] for index in writes]) if writes else (), kept,
                self._add_backward(backward, node) if backward else (), grad_mode, in_backward, number,
            )
        )  # fmt: skip

    def _new_version(
        self, row: OpRow, node: int, index: int, previous: int, grad_fn: int | None, target: str | None
    ) -> str | None:
        """A result that is one of the arguments, written in place or handed back; what it is named, if it is."""
        kind, *_, number = row.outputs[index]
        before = self._values[previous]
        if target is not None and row.site is not None:
            text = self._sites[row.site].expression
            if row.op not in text and "=" not in text:
                # Written on the way to something else (`layer = Linear(3, 3)` fills its weight): not what is named.
                target = None
        if grad_fn is None and not self._types[kind].leaf:
            grad_fn = before.grad_fn
        self._new_value(node, index, kind, before.base, previous, grad_fn, number, target)
        return target

    def _unname(self, site: int | None, region: int | None) -> None:
        """The name belongs to what the expression gives in the end, not to operations on the way there."""
        if self._named is not None and self._named[:2] == (site, region):
            last = self._values[self._named[2]]
            self._values[last.id] = replace(last, name=None)

    def _new_value(
        self, node: int, output: int, kind: int, base: int | None, previous: int | None, grad_fn: int | None,
        output_nr: int, name: str | None,
    ) -> int:  # fmt: skip
        number = len(self._values)
        version = 0
        if previous is not None:
            before = self._values[previous]
            version = before.version + 1
            name = before.name if name is None else name
        dtype, shape, device, requires_grad, leaf = self._types[kind]
        self._values.append(
            _value(number, node, output, dtype, tuple(shape), device, requires_grad, leaf, base, previous, version,
                   grad_fn, output_nr, name)
        )  # fmt: skip
        return number

    def _add_backward(self, rows: Sequence[tuple[str, tuple[ParentRow | None, ...]]], node: int) -> tuple[int, ...]:
        """Make the backward nodes of the row at this place; parents may be among themselves."""
        if not rows:
            return ()
        first = len(self._backward_nodes)
        made = self._grads_at[self._place] = tuple(range(first, first + len(rows)))
        self._backward_nodes += [_LATER] * len(rows)
        for number, (name, parents) in zip(made, rows):
            found = tuple([self._parent(each) for each in parents])
            self._backward_nodes[number] = _backward_node(number, name, node, found, None)
        return made

    def _alias(self, row: AliasRow) -> None:
        old = self._values[self._value(row.value)]
        writer = old.node if row.by is None else self._node_at.get(self._place - row.by, old.node)
        made = self._add_backward(row.backward, writer)
        if made:
            owner = self._nodes[writer]
            self._nodes[writer] = replace(owner, backward=(*owner.backward, *made))
        grad_fn = old.grad_fn
        if row.grad_fn is not None:
            distance, index = row.grad_fn
            grad_fn = self._grads_at[self._place - distance][index]
        number = self._new_value(writer, -1, row.type, old.base, old.id, grad_fn, row.number, old.name)
        self._made[self._place] = (number,)

    def _parent(self, parent: ParentRow | None) -> tuple[int, int] | None:
        if parent is None or parent.how == "old":
            return None
        if parent.how == "leaf":
            leaf = self._value((parent.distance, parent.which))
            return self._accumulator(leaf), parent.number
        if parent.how == "value":
            value = self._values[self._value((parent.distance, parent.which))]
            return None if value.grad_fn is None else (value.grad_fn, value.output_nr)
        return self._grads_at[self._place - parent.distance][parent.which], parent.number

    def _accumulator(self, leaf: int) -> int:
        first = leaf
        while (previous := self._values[first].previous) is not None:
            first = previous
        if first not in self._accumulate:
            self._accumulate[first] = len(self._backward_nodes)
            self._backward_nodes.append(
                BackwardNode(len(self._backward_nodes), "AccumulateGrad", self._values[first].node, (), first)
            )
        return self._accumulate[first]


def build(
    tokens: Iterable[int], rows: Mapping[int, Row] | Sequence[Row], types: Types, sites: Mapping[int, Site],
    scopes: Mapping[int, Scope], hashes: Hashes | None = None, course: Course | None = None,
) -> Graph:  # fmt: skip
    """The graph of a step that is written as the row numbers `tokens`; its hashes and its course, if they are known."""
    builder = GraphBuilder(types, sites, scopes, hashes, course)
    for token in tokens:
        builder.add(token, rows[token])
    return builder.finish()
