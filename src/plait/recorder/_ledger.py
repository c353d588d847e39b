"""The ledger: rows under numbers. Every row of the recording is kept once, a step is a list of their numbers.

NOTE [Hot keys]
    For every call the handler makes a flat tuple from the function, the place, where its tensors come from
    (relative), its other arguments and the types of its results. If the tuple is known, the row is known, and
    recording the call is one dictionary look-up and one append. Only a new tuple pays for the slow path in
    `_new_row.py`, which looks at the backward nodes and the saved tensors. So a loop is slow in its first two
    iterations and a known step is never slow. Distances are relative to the call, so equal iterations give equal
    tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import torch

from plait._torch import sequence_number
from plait.graph._rows import AliasRow, OpRow, Row, TensorType
from plait.graph._shape import Place, place_of, program_item, row_digests
from plait.recorder._entries import PORTS, Entry
from plait.recorder._sites import Sites

_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "f8_e4m3fn", torch.float8_e5m2: "f8_e5m2",
}  # fmt: skip


class RowFacts:
    """What is known of a row beside itself; found once, when it is new."""

    __slots__ = ("item", "loose", "offsets", "row", "tight")

    def __init__(self, row: Row, tight: bytes, loose: bytes, item: str | None, offsets: tuple[int, ...]) -> None:
        self.row = row
        self.tight = tight
        self.loose = loose
        self.item = item
        self.offsets = offsets


class Ledger:
    """Numbers types and rows, and writes the rows of the step under way down one after the other."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        # What stays from step to step.
        self.types: list[TensorType] = []
        self.type_numbers: dict[Any, int] = {}
        self.rows: list[RowFacts] = []
        self.row_numbers: dict[Row, int] = {}
        self.counts: list[list[Any]] = []  # a row: [number, nanoseconds, calls, flags, ports, version]
        self.hot: dict[tuple[Any, ...], list[Any]] = {}
        # The step under way. `tokens`, `numbers` (autograd's counter before the call) and `times` run side by side.
        self.tokens: list[int] = []
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.extra_nodes: dict[int, tuple[int, int]] = {}  # backward nodes that their number does not lead to
        self.first_number = sequence_number()

    def clear(self) -> None:
        """Begin another step."""
        self.tokens.clear()
        self.numbers.clear()
        self.times.clear()
        self.extra_nodes.clear()
        self.first_number = sequence_number()

    # -- numbers ------------------------------------------------------------------------------------------------

    def type_of(self, key: tuple[Any, ...], tensor: torch.Tensor) -> int:
        """The number of a tensor type; `key` is (shape, dtype, requires_grad, device, leaf)."""
        shape, dtype, requires_grad, device, leaf = key
        try:
            sizes = tuple(int(extent) for extent in shape)
        except (RuntimeError, TypeError, AttributeError):  # symbolic or ragged sizes
            sizes = tuple(-1 for _ in shape)
        name = _DTYPES.get(dtype) or str(dtype).removeprefix("torch.")
        made = TensorType(name, sizes, str(device), bool(requires_grad), bool(leaf))
        number = self.type_numbers.get(made)
        if number is None:
            number = self.type_numbers[made] = len(self.types)
            self.types.append(made)
        self.type_numbers[key] = number
        return number

    def port_of(self, tensor: torch.Tensor, output: int = 0) -> int:
        """The port of a tensor as output number `output` of whatever made it."""
        try:
            leaf = tensor.is_leaf
        except RuntimeError:  # a tensor view that was made under no_grad and whose base was written since
            leaf = not tensor.requires_grad
        key = (tensor.shape, tensor.dtype, tensor.requires_grad, tensor.device, leaf)
        number = self.type_numbers.get(key)
        if number is None:
            number = self.type_of(key, tensor)
        return number * PORTS + output

    def number_of(self, row: Row, offsets: tuple[int, ...] = (), in_arm: bool = False) -> int:
        """The number of a row."""
        number = self.row_numbers.get(row)
        if number is None:
            number = self.row_numbers[row] = len(self.rows)
            tight, loose = row_digests(row, self.types, self.place)
            self.rows.append(RowFacts(row, tight, loose, program_item(row, self.place, in_arm), offsets))
            self.counts.append([number, 0, 0, 0, (), 0])
        return number

    def place(self, site: int) -> Place:
        """A site as the hashes see it."""
        body = self.sites.bodies[site]
        return place_of(body[0], body[1], body[3], body[6])

    # -- the step under way -------------------------------------------------------------------------------------

    def append(self, row: Row, in_arm: bool = False) -> int:
        """Write down a row that is no call; its number."""
        number = self.number_of(row, (), in_arm)
        self.append_number(number)
        return number

    def append_number(self, number: int) -> None:
        """Write down a row that is no call, by its number."""
        self.counts[number][2] += 1
        self.tokens.append(number)
        self.numbers.append(sequence_number())
        self.times.append(0)

    # -- backward nodes -----------------------------------------------------------------------------------------

    def grad_fn_of_entry(self, entry: Entry) -> tuple[int, int, int] | None:
        """(place, which of its nodes, which output of that) of a value that this step made."""
        place, which = entry[1], entry[2] % PORTS
        while place >= 0:
            row = self.rows[self.tokens[place]].row
            if isinstance(row, AliasRow):
                return None if row.grad_fn is None else (place - row.grad_fn[0], row.grad_fn[1], row.number)
            if not isinstance(row, OpRow):
                return None
            output = row.outputs[which]
            if output.grad_fn is not None:
                return place, output.grad_fn, output.number
            if output.replaces is None:
                return None
            distance, which = row.arguments[output.replaces]  # handed back as it was: its node is the argument's
            place = place - distance if distance > 0 else -1
        return None

    def find_node(self, number: int) -> tuple[int, int] | None:
        """(place, which of its nodes) of the row that made the backward node with this sequence number."""
        extra = self.extra_nodes.get(number)
        if extra is not None:
            return extra
        if number < self.first_number:
            return None
        place = bisect_right(self.numbers, number) - 1
        if place < 0:
            return None
        offsets = self.rows[self.tokens[place]].offsets
        offset = number - self.numbers[place]
        return (place, offsets.index(offset)) if offset in offsets else None

    def no_graph_built(self) -> bool:
        """Whether autograd has made no node since the step began."""
        return sequence_number() == self.first_number
