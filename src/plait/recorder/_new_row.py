"""The slow path: a call that looks like no call before. Finds out everything about it, once."""

from __future__ import annotations

from typing import Any, Final
from weakref import ref

import torch

from plait._torch import node_number, output_number, storage_key
from plait.graph._rows import OpRow, OutputRow, ReadRow
from plait.recorder._arguments import constants, flat, tensors_in
from plait.recorder._entries import PORTS, Entry, reference_from
from plait.recorder._functions import COMPARISONS, CREATED_COPIES, DATA_SHAPES, plain_name
from plait.recorder._nodes import backward_nodes, own_grad_fn, saved_by
from plait.recorder._tape import Tape

# What is special about a row, as bits of its flags. 0: it gave one new tensor, which is all there is to note.
UNRECORDED: Final = 1  # no tensor came out and none was changed
MANY: Final = 2  # several tensors came out, or something was written in place
COMPARED: Final = 4  # a comparison of two numbers: keep both sides for the decision that may follow
DATA_SHAPE: Final = 8  # the size of the result came from data
LEAF: Final = 16  # a leaf that asks for gradients was made

# Instead of the version of a result: read it each time, or there is none (inference tensors).
SHARED: Final = -1
UNVERSIONED: Final = -2

_FLOATS = {"f64", "f32", "f16", "bf16", "c64", "c128", "f8_e4m3fn", "f8_e5m2"}
_DETACHES = {"detach": "detach", "detach_": "detach", "data": "data"}


class Named:
    """Stands for a function of which only the name is known."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def new_row(
    tape: Tape, key: tuple[Any, ...] | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any,
    site: int | None, grad: bool, before: int,
) -> list[Any]:  # fmt: skip
    """The counts of the row for a call that just returned; the row is not yet on the tape.

    `before` is autograd's number before the call. The row is found again by `key`, if there is one.
    """
    here = len(tape.tokens)
    # A call may put new tensors into its arguments (`__deepcopy__` into its memo): those are not what went in.
    tensors = [each for each in tensors_in(args, kwargs) if id(each[1]) in tape.ids]
    entries = [tape.ids[id(tensor)] for _, tensor in tensors]
    results = list(flat(result))
    written = [
        index
        for index, ((_, tensor), entry) in enumerate(zip(tensors, entries))
        if entry[3] is not None and not tensor.is_inference() and tensor._version != entry[3]
        and all(tensors[other][1] is not tensor for other in range(index))
    ]  # fmt: skip
    name = plain_name(func)
    if not results and not written:
        made = [0, 0, 0, UNRECORDED, (), 0]
        if key is not None:
            tape.hot[key] = made
        return made
    outputs = results + [tensors[i][1] for i in written if all(tensors[i][1] is not each for each in results)]
    backward, nodes = backward_nodes(tape, here, outputs, before, entries)
    storages = [storage_key(tensor) for _, tensor in tensors]
    ports = tuple(tape.port_of(output, index) for index, output in enumerate(outputs))
    output_rows = []
    for output, port in zip(outputs, ports):
        replaces = next((i for i, (_, tensor) in enumerate(tensors) if tensor is output), None)
        storage = storage_key(output)
        base = None
        if replaces is None and storage is not None:
            base = next((i for i, each in enumerate(storages) if each == storage), None)
        output_rows.append(OutputRow(port // PORTS, own_grad_fn(output, nodes), base, replaces, output_number(output)))
    row = OpRow(
        name, site, tape.scopes.stack[-1], grad, tape.backward_depth > 0,
        tuple(reference_from(here, entry) for entry in entries), tuple(position for position, _ in tensors),
        constants(args, kwargs), tuple(output_rows), tuple(written),
        _cut(tape, name, grad, entries, ports), saved_by(nodes, storages, outputs), backward,
    )  # fmt: skip
    number = tape.number_of(row, tuple(node_number(node) - before for node in nodes), tape.calls.in_arm(site))
    if key is None:  # not an ordinary call: its nodes may be numbered differently each time
        for index, node in enumerate(nodes):
            tape.extra_nodes[node_number(node)] = (here, index)
    made = tape.counts[number]
    if made[5] == 0 and not made[4]:
        flags = 0
        if len(outputs) != 1 or written or outputs[0] is not result or output_rows[0].replaces is not None:
            flags |= MANY
        if func in COMPARISONS and len(args) == 2 and all(_is_number(each) for each in args):
            flags |= COMPARED
        if name in DATA_SHAPES or (name in ("__getitem__", "__setitem__") and _has_mask(args)):
            flags |= DATA_SHAPE
        kinds = [tape.types[port // PORTS] for port in ports]
        if any(kind.requires_grad and kind.leaf for kind in kinds):
            flags |= LEAF
        made[3] = flags
        made[4] = ports if flags & MANY else ports[0]
        first = outputs[0]
        shared = output_rows[0].base is not None or output_rows[0].replaces is not None
        made[5] = UNVERSIONED if first.is_inference() else SHARED if shared else first._version
    # The key tells where the arguments come from, but nothing behind them: where a node hands on to something else (a
    # write into a view hands on to the view's base), the next call with this key may have another graph.
    if key is not None and not any(
        parent is not None and parent.how == "node" and parent.distance for _, parents in backward for parent in parents
    ):
        tape.hot[key] = made
    return made


def after_special_row(
    tape: Tape, known: list[Any], here: int, func: Any, args: tuple[Any, ...], kwargs: Any, result: Any
) -> None:
    """Note the results of a row with flags."""
    flags = known[3]
    if flags == COMPARED:
        version = known[5] if known[5] >= 0 else result._version if known[5] == SHARED else None
        tape.ids[id(result)] = (ref(result), here, known[4], version)
        try:
            left, right = args
            tape.compared = (
                here,
                float(left.item() if isinstance(left, torch.Tensor) else left),
                float(right.item() if isinstance(right, torch.Tensor) else right),
                COMPARISONS[func],
            )
        except RuntimeError:  # inside a transform, where no tensor has a value
            tape.compared = None
        return
    if flags & MANY:
        tape.written = tape.written or bool(tape.rows[known[0]].row.writes)
        row = tape.rows[known[0]].row
        assert isinstance(row, OpRow)
        outputs = list(flat(result))
        if row.writes:
            tensors = [tensor for _, tensor in tensors_in(args, kwargs or {})]
            for index in row.writes:
                written = tensors[index]
                if all(written is not each for each in outputs):
                    outputs.append(written)
                key = storage_key(written)
                if key is not None:
                    tape.writers[key] = here
                    leaf = tape.leaves.storages.get(key)
                    if leaf is not None and not tape.backward_depth:
                        tape.leaf_written(leaf(), row.site)
        for output, port in zip(outputs, known[4]):
            version = None if output.is_inference() else output._version
            tape.ids[id(output)] = (ref(output), here, port, version)
    else:
        version = known[5] if known[5] >= 0 else result._version if known[5] == SHARED else None
        tape.ids[id(result)] = (ref(result), here, known[4], version)
    if flags & LEAF:
        for made in flat(result):
            if made.requires_grad and made.is_leaf:
                tape.leaves.of_step.append(ref(made))
    if flags & DATA_SHAPE:
        name = tape.rows[known[0]].row.op
        first = next(flat(result), None)
        count = None if first is None or first.dim() == 0 else first.shape[0]
        site = tape.rows[known[0]].row.site
        tape.append(ReadRow(DATA_SHAPES.get(name, "mask"), site, (1, 0), None, None))
        tape.reads.append((count, None, None))


def place_result(
    tape: Tape, counts: list[Any], here: int, before: int, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> None:
    """Write down a row that is no ordinary call, and note its results."""
    if counts[3] & UNRECORDED:
        return
    counts[2] += 1
    tape.tokens.append(counts[0])
    tape.numbers.append(before)
    tape.times.append(0)
    if not counts[3] & MANY:
        counts[3] |= MANY
        counts[4] = (counts[4],)
    after_special_row(tape, counts, here, None, args, kwargs, result)


def _is_number(side: Any) -> bool:
    """Whether a side of a comparison is a number that can be had without waiting for a device."""
    if isinstance(side, torch.Tensor):
        if type(side) not in (torch.Tensor, torch.nn.Parameter):
            return False  # a tensor that traces what is done to it (torch.export) must not be read
        return side.numel() == 1 and side.device.type == "cpu" and not side.is_complex()
    return isinstance(side, (bool, int, float))


def _has_mask(args: tuple[Any, ...]) -> bool:
    index = args[1] if len(args) > 1 else None
    parts = index if isinstance(index, (tuple, list)) else (index,)
    return any(isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8) for each in parts)


def _cut(tape: Tape, name: str, grad: bool, entries: list[Entry], ports: tuple[int, ...]) -> str | None:
    """Why a path that asked for gradients ends in this call, or None if none does."""
    types = tape.types
    asked = any(types[entry[2] // PORTS].requires_grad for entry in entries)
    kept = any(types[port // PORTS].requires_grad for port in ports)
    if not asked or kept:
        return None
    if name in _DETACHES:
        return _DETACHES[name]
    if name in CREATED_COPIES:
        return "copied as numbers"
    if name == "grad" or name.endswith("__set__"):
        return None
    kinds = {types[port // PORTS].dtype for port in ports}
    if not kinds & _FLOATS:
        return "boolean result" if kinds == {"bool"} else "integer result"
    if not grad:
        return "inference_mode" if tape.inference else "no_grad"
    return "not differentiable"
