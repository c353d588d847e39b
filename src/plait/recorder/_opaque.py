"""Opaque calls: compiled, scripted, or a pass that left a graph. Only what comes out of one can be seen, later."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import torch

from plait._torch import grad_fn_of, node_number, output_number
from plait.graph._rows import OpRow, OutputRow
from plait.recorder._entries import PORTS, Entry, reference_from
from plait.recorder._nodes import backward_nodes, own_grad_fn

if TYPE_CHECKING:
    from plait.recorder._tape import Tape


class OpaqueCall(NamedTuple):
    """A call whose inside is hidden: what it is, where, its arguments' entries, autograd's numbers around it."""

    name: str
    site: int | None
    scope: int | None
    arguments: tuple[Entry, ...]
    first: int
    last: int


def opaque_output(tape: Tape, tensor: torch.Tensor) -> Entry | None:
    """If an opaque call of this step made the tensor: write that call down as its node."""
    if not tape.opaque or tensor.is_leaf:
        return None
    node = grad_fn_of(tensor)
    if node is None:
        return None
    number = node_number(node)
    for call in tape.opaque:
        if call.first <= number < call.last:
            return _written(tape, call, tensor)
    return None


def _written(tape: Tape, call: OpaqueCall, tensor: torch.Tensor) -> Entry:
    """The call as a row, from when a tensor that it made is first used."""
    here = len(tape.tokens)
    port = tape.port_of(tensor)
    backward, nodes = backward_nodes(tape, here, [tensor], call.first)
    output = OutputRow(port // PORTS, own_grad_fn(tensor, nodes), None, None, output_number(tensor))
    row = OpRow(
        call.name, call.site, call.scope, True, False,
        tuple(reference_from(here, entry) for entry in call.arguments),
        tuple(str(index) for index in range(len(call.arguments))), "", (output,), (),
        None, (), backward,
    )  # fmt: skip
    number = tape.number_of(row, ())
    for index, node in enumerate(nodes):
        tape.extra_nodes[node_number(node)] = (here, index)
    tape.counts[number][2] += 1
    tape.tokens.append(number)
    tape.numbers.append(tape.numbers[-1] if tape.numbers else call.first)
    tape.times.append(0)
    made = (ref(tensor), here, port, None if tensor.is_inference() else tensor._version)
    tape.ids[id(tensor)] = made
    return made
