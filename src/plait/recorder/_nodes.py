"""Backward nodes of a call: which it made, what they hand on to, what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from plait._torch import grad_fn_of, node_number, saved_tensors, storage_key, transforms_active
from plait.graph._rows import ParentRow
from plait.recorder._entries import Entry, reference_from

if TYPE_CHECKING:
    from plait.recorder._tape import Tape


def backward_nodes(
    tape: Tape, here: int, outputs: list[torch.Tensor], before: int, entries: Sequence[Entry] = ()
) -> tuple[tuple[tuple[str, tuple[ParentRow | None, ...]], ...], list[Any]]:
    """The backward nodes that the call made, in the order of their numbers, with their parents."""
    if transforms_active():
        return (), []
    found: dict[int, Any] = {}
    starts = [grad_fn_of(output) for output in outputs if output.requires_grad]
    stack = [node for node in starts if node is not None]
    while stack:
        node = stack.pop()
        number = node_number(node)
        if number in found or node.name() == "torch::autograd::AccumulateGrad" or number < tape.first_number:
            continue
        if number in tape.extra_nodes or (number < before and tape.find_node(number) is not None):
            continue
        found[number] = node
        stack += [parent for parent, _ in node.next_functions if parent is not None]
    numbers = sorted(found)
    nodes = [found[number] for number in numbers]
    for index, number in enumerate(numbers):
        if number < before:  # a view whose node was made when somebody looked at it, between two calls
            tape.extra_nodes[number] = (here, index)
    own = {number: index for index, number in enumerate(numbers)}
    rows = tuple(
        (node.name(), tuple(_parent(tape, here, own, entries, *each) for each in node.next_functions)) for node in nodes
    )
    return rows, nodes


def _parent(
    tape: Tape, here: int, own: dict[int, int], entries: Sequence[Entry], node: Any, number: int
) -> ParentRow | None:
    if node is None:
        return None
    variable = getattr(node, "variable", None)
    if isinstance(variable, torch.Tensor):
        entry = tape.ids.get(id(variable))
        if entry is None or entry[0]() is not variable:
            return ParentRow("old", 0, 0, number)
        distance, output = reference_from(here, entry)
        return ParentRow("leaf", distance, output, number)
    index = own.get(node_number(node))
    if index is not None:
        return ParentRow("node", 0, index, number)
    place = tape.find_node(node_number(node))
    if place is None:
        return ParentRow("old", 0, 0, number)
    for entry in entries:
        if tape.grad_fn_of_entry(entry) == (*place, number):
            return ParentRow("value", *reference_from(here, entry), number)
    return ParentRow("node", here - place[0], place[1], number)


def own_grad_fn(output: torch.Tensor, nodes: list[Any]) -> int | None:
    """Which of the call's `nodes` is the `grad_fn` of this output."""
    if not output.requires_grad or transforms_active():
        return None
    grad_fn = grad_fn_of(output)
    return next((index for index, node in enumerate(nodes) if node is grad_fn), None)


def saved_by(
    nodes: list[Any], storages: list[int | None], outputs: list[torch.Tensor]
) -> tuple[tuple[str, str, int, int], ...]:
    """(name, whose it is, which, bytes) of what the nodes keep for backward."""
    found = []
    own = [storage_key(output) for output in outputs]
    seen = set()
    for node in nodes:
        for name, tensor in saved_tensors(node):
            key = storage_key(tensor)
            if key is None or (name, key, id(node)) in seen:
                continue
            seen.add((name, key, id(node)))
            if key in storages:
                found.append((name, "argument", storages.index(key), tensor.nbytes))
            elif key in own:
                found.append((name, "output", own.index(key), tensor.nbytes))
            else:
                found.append((name, "own", 0, tensor.nbytes))
    return tuple(found)
