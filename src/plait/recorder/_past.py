"""The past of the program, as an error finds it: spans of the tape as graphs, and the backward nodes in them.

NOTE [Reading what a node saved]
    `_raw_saved_x.data` is the tensor, or None once the graph was freed; reading `_saved_x` raises if the tensor is
    freed or was written in place since. Both together tell the two apart without the text of any message. A node
    whose tensors are packed (checkpoint, save_on_cpu) is left alone: reading would run the unpack hook.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import torch

from plait._torch import is_wrapped, node_number, storage_key
from plait.graph import Graph, Hashes, Scope, Site, build
from plait.graph._rows import OpRow
from plait.recorder._entries import PORTS
from plait.recorder._spans import Span
from plait.recorder._tape import Tape
from plait.recording._failure import Broken, Target, Window

MOST_NODES: Final = 200_000  # backward nodes looked at for one error


class Past:
    """The spans of the tape as windows, and which backward node stands where in them."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._spans: list[Span] = tape.spans.all()
        self._rows = [each.row for each in tape.rows]
        self._sites = _Sites(tape)
        self._nodes: list[dict[int, int]] = [self._node_numbers(span) for span in self._spans]
        self._firsts = [self._first_values(span) for span in self._spans]
        self._graphs: list[Graph] = [self._graph(span) for span in self._spans]
        self._index = {span.number: index for index, span in enumerate(self._spans)}
        self.windows = tuple(self._window(index) for index in range(len(self._spans)))

    def site(self, number: int | None) -> Site | None:
        """The site with this number."""
        return None if number is None else self._sites[number]

    def _graph(self, span: Span) -> Graph:
        scopes = {number: Scope(number, *body) for number, body in enumerate(self._tape.scopes.bodies)}
        return build(span.tokens, self._rows, self._tape.types, self._sites, scopes, Hashes("", "", ""))

    def _node_numbers(self, span: Span) -> dict[int, int]:
        places = [place for place, token in enumerate(span.tokens) if self._rows[token].kind in ("op", "input")]
        return {place: number for number, place in enumerate(places)}

    def _value(self, index: int, place: int, output: int) -> int:
        """The value that an entry with this place stands for."""
        at = place if place >= 0 else self._spans[index].input_places[-place - 1]
        return self._firsts[index][at] + output

    def _first_values(self, span: Span) -> list[int]:
        """For every place the number of the first value that its row made."""
        found, count = [], 0
        for token in span.tokens:
            row = self._rows[token]
            found.append(count)
            count += len(row.outputs) if isinstance(row, OpRow) else row.kind in ("input", "alias")
        return found

    def _window(self, index: int) -> Window:
        span = self._spans[index]
        origins: dict[int, tuple[int, int]] = {}
        for number, (source, place, output) in span.origins.items():
            value = self._value(index, -number, 0)
            made = self._index.get(source)
            if made is not None:
                origins[value] = made, self._value(made, place, output)
        storages: dict[int, int] = {}
        names: dict[int, str] = {}
        for weak, place, port, _ in span.ids.values():
            tensor = weak()
            owned = None if tensor is None else self._tape.scopes.name_of(tensor)
            if owned is not None:
                names[self._value(index, place, port % PORTS)] = owned[0]
            key = None if tensor is None else storage_key(tensor)
            if place < 0 and key is not None:
                storages[self._value(index, place, 0)] = key
        self._graphs[index] = _named(self._graphs[index], names)
        return Window(self._graphs[index], origins, storages)

    # -- backward nodes -------------------------------------------------------------------------------------------

    def find(self, node: Any) -> tuple[int, int] | None:
        """(window, backward node) of a node of autograd."""
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            return self._leaf(variable)
        number = node_number(node)
        for index in range(len(self._spans) - 1, -1, -1):
            span = self._spans[index]
            if number in span.extra_nodes:
                return self._made(index, *span.extra_nodes[number])
            if number >= span.first_number:
                place = bisect_right(span.numbers, number) - 1
                if place < 0:
                    return None
                offsets = self._tape.rows[span.tokens[place]].offsets
                offset = number - span.numbers[place]
                return self._made(index, place, offsets.index(offset)) if offset in offsets else None
        return None

    def _made(self, index: int, place: int, nth: int) -> tuple[int, int] | None:
        node = self._nodes[index].get(place)
        made = () if node is None else self._graphs[index].nodes[node].backward
        return (index, made[nth]) if nth < len(made) else None

    def _leaf(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        for index in range(len(self._spans) - 1, -1, -1):
            entry = self._spans[index].ids.get(id(tensor))
            if entry is None or entry[0]() is not tensor:
                continue
            value = self._value(index, entry[1], entry[2] % PORTS)
            for each in self._graphs[index].backward_nodes:
                if each.leaf == value:
                    return index, each.id
        return None

    def walk(self, roots: list[torch.Tensor]) -> tuple[list[tuple[int, int]], list[Broken], set[int], int]:
        """(backward nodes reached, saved tensors that can't be used, ids of leaves, nodes of unknown age)."""
        stack = [root.grad_fn for root in roots if root.grad_fn is not None]
        seen: set[Any] = set(stack)
        reached: list[tuple[int, tuple[int, int]]] = []
        broken: list[tuple[int, Broken]] = []
        leaves: set[int] = {id(root) for root in roots if root.grad_fn is None}
        older = 0
        while stack and len(seen) < MOST_NODES:
            node = stack.pop()
            variable = getattr(node, "variable", None)
            if isinstance(variable, torch.Tensor):
                leaves.add(id(variable))
            number = -1 if isinstance(variable, torch.Tensor) else node_number(node)
            place = self.find(node)
            if place is None:
                older += not isinstance(variable, torch.Tensor)
            else:
                reached.append((number, place))
                broken += [(number, each) for each in _broken(node, *place)]
            for parent, _ in node.next_functions:
                if parent is not None and parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        reached.sort(key=lambda each: -each[0])
        broken.sort(key=lambda each: -each[0])
        return [place for _, place in reached], [each for _, each in broken], leaves, older

    def target(self, tensor: torch.Tensor) -> Target:
        """What is known of a tensor that a refused call was given."""
        entry = self._tape.ids.get(id(tensor))
        value = None
        if entry is not None and entry[0]() is tensor:
            value = self._value(len(self._spans) - 1, entry[1], entry[2] % PORTS)
        batched = is_wrapped(tensor)
        base = tensor._base if not batched and tensor._is_view() else None
        overlapping = not batched and any(
            stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)
        )
        return Target(
            value, self._tape.name_of(tensor) or "", tuple(map(int, tensor.shape)),
            leaf=not batched and tensor.is_leaf and tensor.requires_grad,
            base_leaf=base is not None and base.is_leaf and base.requires_grad, view=base is not None,
            overlapping=overlapping, inference=tensor.is_inference(), batched=batched,
        )  # fmt: skip


def _named(graph: Graph, names: dict[int, str]) -> Graph:
    """The graph with the names that its model has given to parameters since they were made."""
    for value in list(names):
        older = graph.values[value].previous
        while older is not None:
            names[older] = names[value]
            older = graph.values[older].previous
    if all(graph.values[value].name == name for value, name in names.items()):
        return graph
    values = (replace(each, name=names.get(each.id, each.name)) for each in graph.values)
    return replace(graph, values=tuple(values))


class _Sites(dict[int, Site]):
    """Sites as objects, made when they are asked for."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._bodies = tape.sites.bodies

    def __missing__(self, number: int) -> Site:
        made: Any = Site
        site: Site = made(number, *self._bodies[number])
        self[number] = site
        return site


def _broken(node: Any, window: int, number: int) -> Iterator[Broken]:
    """Every saved tensor of a node that can't be used any more."""
    for name in dir(node):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            raws = getattr(node, name)
        except RuntimeError:
            yield Broken(window, number, name.removeprefix("_raw_saved_"), True, None, None)
            continue
        for raw in raws if isinstance(raws, (list, tuple)) else (raws,):
            if raw is None or getattr(raw, "unpack_hook", None) is not None:
                continue
            try:
                getattr(node, name.removeprefix("_raw" if hasattr(node, name.removeprefix("_raw")) else "_raw_"))
            except RuntimeError:
                data = getattr(raw, "data", None)
                if isinstance(data, torch.Tensor):
                    if not _is_written(raw):
                        continue
                    shape = tuple(data.shape)
                    yield Broken(window, number, name.removeprefix("_raw_saved_"), False, shape, storage_key(data))
                else:
                    yield Broken(window, number, name.removeprefix("_raw_saved_"), True, None, None)


def _is_written(raw: Any) -> bool:
    """Whether this one of several tensors under one name is the one that was written."""
    unpack = getattr(raw, "unpack", None)
    if unpack is None:
        return True
    try:
        unpack()
    except RuntimeError:
        return True
    except TypeError:  # it wants its node, for an output
        return True
    return False
