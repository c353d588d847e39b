"""The slow path: a call that looks like no call before. Finds out everything about it, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from weakref import ref

import torch

from plait._torch import grad_fn_of, node_number, output_number, saved_tensors, storage_key, transforms_active
from plait.graph._rows import OpRow, OutputRow, ParentRow, ReadRow, Reference
from plait.recorder._functions import COMPARISONS, CREATED_COPIES, DATA_SHAPES, plain_name
from plait.recorder._tape import PORTS, Entry, OpaqueCall, Tape

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
    tensors = list(tensors_in(args, kwargs))
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
        output_rows.append(OutputRow(port // PORTS, _own_grad_fn(output, nodes), base, replaces, output_number(output)))
    row = OpRow(
        name, site, tape.scopes.stack[-1], grad, tape.backward_depth > 0,
        tuple(reference_from(here, entry) for entry in entries), tuple(position for position, _ in tensors),
        constants(args, kwargs), tuple(output_rows), tuple(written),
        _cut(tape, name, grad, entries, ports), _saved(nodes, storages, outputs), backward,
    )  # fmt: skip
    number = tape.number_of(row, tuple(node_number(node) - before for node in nodes), tape.in_arm(site))
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


def opaque_output(tape: Tape, call: OpaqueCall, tensor: torch.Tensor) -> Entry:
    """Write down a compiled or scripted call as the node that made `tensor`, when the tensor is first used."""
    here = len(tape.tokens)
    port = tape.port_of(tensor)
    backward, nodes = backward_nodes(tape, here, [tensor], call.first)
    output = OutputRow(port // PORTS, _own_grad_fn(tensor, nodes), None, None, output_number(tensor))
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


def reference_from(here: int, entry: Entry) -> Reference:
    """A value as the row at `here` refers to it."""
    place = entry[1]
    return (here - place if place >= 0 else place), entry[2] % PORTS


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """(position, tensor) of all arguments, in the order in which the handler meets them."""
    for index, argument in enumerate(args):
        yield from _tensors(str(index), argument)
    for name, argument in kwargs.items():
        yield from _tensors(name, argument)


def _tensors(position: str, argument: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(argument, torch.Tensor):
        yield position, argument
    elif isinstance(argument, (list, tuple)):
        for index, item in enumerate(argument):
            yield from _tensors(f"{position}.{index}", item)
    elif isinstance(argument, dict):
        for name, item in argument.items():
            yield from _tensors(f"{position}.{name}", item)
    elif isinstance(argument, slice):
        for item in (argument.start, argument.stop, argument.step):
            if isinstance(item, torch.Tensor):
                yield position, item


def flat(result: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result, however nested."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from flat(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from flat(item)


def constants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments that are no tensors, as one would write them."""
    shown = []
    for argument in args:
        if (text := _constant(argument)) is not None:
            shown.append(text)
    for name, argument in kwargs.items():
        if (text := _constant(argument)) is not None and text != "None":
            shown.append(f"{name}={text}")
    return ", ".join(shown)


def _constant(argument: Any) -> str | None:
    if isinstance(argument, torch.Tensor):
        return None
    if argument is None or isinstance(argument, (bool, int, float, complex, str)):
        return repr(argument)
    if isinstance(argument, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(argument)
    if argument is Ellipsis:
        return "..."
    if isinstance(argument, slice):
        start, stop, step = (_constant(each) or "$" for each in (argument.start, argument.stop, argument.step))
        text = f"{'' if start == 'None' else start}:{'' if stop == 'None' else stop}"
        return text if step == "None" else f"{text}:{step}"
    if isinstance(argument, (list, tuple)):
        parts = [_constant(each) for each in argument[:8]]
        if not any(part is not None for part in parts):
            return None
        return f"[{', '.join(part or '$' for part in parts)}{', ...' if len(argument) > 8 else ''}]"
    return type(argument).__name__


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


def _own_grad_fn(output: torch.Tensor, nodes: list[Any]) -> int | None:
    if not output.requires_grad or transforms_active():
        return None
    grad_fn = grad_fn_of(output)
    return next((index for index, node in enumerate(nodes) if node is grad_fn), None)


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


def _saved(
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
