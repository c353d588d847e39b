"""The tape: what has happened in the step that is under way, and the numbers for everything that repeats.

NOTE [Hot keys]
    For every call the handler makes a flat tuple from the function, the place, where its tensors come from
    (relative), its other arguments and the types of its results. If the tuple is known, the row is known, and
    recording the call is one dictionary look-up and one append. Only a new tuple pays for the slow path below, which
    looks at the backward nodes and the saved tensors. So a loop is slow in its first two iterations and a known step
    is never slow. Distances are relative to the call, so equal iterations give equal tuples.

NOTE [Entries]
    `ids` maps `id(tensor)` to (weak reference, place, port, version). An address is reused as soon as a tensor dies,
    so an entry counts only if its weak reference still gives that tensor. `place` is the row that made the value, or
    -k for the k-th input. `port` is type * 4096 + output number. `version` is None for inference tensors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar
from weakref import ref

import torch

from plait._settings import STRICT
from plait._torch import grad_fn_of, node_number, output_number, sequence_number, storage_key, transforms_active
from plait.graph._model import InputKind
from plait.graph._rows import (
    AliasRow,
    EnterRow,
    EventRow,
    InputRow,
    ModeRow,
    OpRow,
    Reference,
    ReturnRow,
    Row,
    TensorType,
)
from plait.graph._shape import Place, place_of, program_item, row_digests
from plait.recorder._functions import plain_name
from plait.recorder._leaves import Leaves
from plait.recorder._scopes import Scopes
from plait.recorder._sites import Activation, Sites

PORTS: Final = 4096
SMALL_GRAPH: Final = 80  # rows of a step up to which small tensors are kept,
SMALL_TENSOR: Final = 8  # up to this many elements,
SAMPLED_STEPS: Final = 3  # in the first steps of the run
SPANS_KEPT: Final = 8  # earlier stretches of the run that an error can be explained from,
SPAN_ROWS: Final = 200_000  # up to this many rows together
Entry = tuple[Any, int, int, int | None]
R = TypeVar("R")

_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "f8_e4m3fn", torch.float8_e5m2: "f8_e5m2",
}  # fmt: skip


class OpaqueCall(NamedTuple):
    """A call whose inside is hidden: what it is, where, its arguments' entries, autograd's numbers around it."""

    name: str
    site: int | None
    scope: int | None
    arguments: tuple[Entry, ...]
    first: int
    last: int


class Earlier(NamedTuple):
    """A tensor that an earlier step made and that is still alive: where, under which name, as which result."""

    tensor: Any
    site: int | None
    name: str | None
    origin: tuple[int, int, int] | None = None  # (span, place, output)


class Span(NamedTuple):
    """What was on the tape between two clearings. The last few are kept to explain errors that reach back."""

    number: int
    first_number: int
    tokens: list[int]
    numbers: list[int]
    ids: dict[int, Entry]
    input_places: list[int]
    origins: dict[int, tuple[int, int, int]]
    extra_nodes: dict[int, tuple[int, int]]


class RowFacts:
    """What is known of a row beside itself; found once, when it is new."""

    __slots__ = ("item", "loose", "offsets", "row", "tight")

    def __init__(self, row: Row, tight: bytes, loose: bytes, item: str | None, offsets: tuple[int, ...]) -> None:
        self.row = row
        self.tight = tight
        self.loose = loose
        self.item = item
        self.offsets = offsets


class Tape:
    """The step that is under way, and every table that lives as long as the recording."""

    def __init__(self, sites: Sites, values: str) -> None:
        self.sites = sites
        self.parameters: dict[int, tuple[Any, bool, int, int, int]] = {}
        self.scopes = Scopes(on_names=self.parameters.clear)
        self.leaves = Leaves()
        self.scopes.on_model = lambda root, outer: self.leaves.model(root, outer, self.scopes.name_of)
        self.values = values
        # The step under way. `tokens`, `numbers` (autograd's counter before the call) and `times` run side by side.
        self.tokens: list[int] = []
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.ids: dict[int, Entry] = {}
        self.input_places: list[int] = []
        self.bound: list[int] = []  # for every input the number of the leaf that it is, or -1
        self.reads: list[tuple[Any, Any, Any]] = []
        self.writers: dict[int, int] = {}
        self.extra_nodes: dict[int, tuple[int, int]] = {}
        self.samples: list[tuple[int, int, str, Any]] = []
        self.compared: tuple[int, Any, Any, str] | None = None
        self.opaque: list[OpaqueCall] = []
        self.origins: dict[int, tuple[int, int, int]] = {}  # the k-th input -> the result of an earlier span it is
        self.first_number = sequence_number()
        # What stays from step to step.
        self.earlier: dict[int, Earlier] = {}
        self.past: deque[Span] = deque()
        self._past_rows = 0
        self.span = 0
        self.on_failed: Callable[..., None] = lambda *_: None
        self.types: list[TensorType] = []
        self.type_numbers: dict[Any, int] = {}
        self.rows: list[RowFacts] = []
        self.row_numbers: dict[Row, int] = {}
        self.counts: list[list[Any]] = []  # a row: [number, nanoseconds, calls, flags, ports, version]
        self.hot: dict[tuple[Any, ...], list[Any]] = {}
        self._enter_numbers: dict[tuple[int, int | None], int] = {}
        self._input_numbers: dict[tuple[Any, ...], int] = {}
        self.root = 0  # the address of the frame that began the recording: its callers are no part of it
        self.stack: list[Activation] = []
        self.top: Activation | None = None
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.backward_depth = 0
        self.circumstances = 4 * self.inference  # part of every hot key: 2 in a backward pass, 4 in inference mode
        self.armed = False
        # Whether anything was written in place in this step: only then can a tensor have changed behind our back.
        self.written = False
        self.sampling = True
        self.deadline = 0  # when the handler calls `tick`; 0 (always) while small tensors are kept
        self._next_tick = 0
        self.on_broken: Callable[[Exception], None] = lambda error: None
        self.on_armed: Callable[[], None] = lambda: None
        self.on_deadline: Callable[[], None] = lambda: None

    # -- tables -------------------------------------------------------------------------------------------------

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

    # -- where we are ---------------------------------------------------------------------------------------------

    def site_of(self, frame: Any) -> int | None:
        """The place in the program from which `frame` was reached; follows calls and returns of its functions."""
        while frame is not None:
            code = frame.f_code
            sites = self.sites.of(code)
            if isinstance(sites, dict):
                if frame.f_trace is not self.top or self.top is None:
                    self.switch(frame)
                offset = frame.f_lasti
                site = sites.get(offset)
                return self.sites.learn(code, offset) if site is None else site
            frame = frame.f_back
        return None

    def switch(self, frame: Any) -> None:
        """The program is in another function than at the last event: write down what returned and what began."""
        entered = []
        keep = 0
        while frame is not None:
            if isinstance(self.sites.of(frame.f_code), dict):
                known = self._activation(frame)
                if known is not None:
                    keep = known.depth + 1
                    break
                entered.append(frame)
            if id(frame) == self.root:
                break
            frame = frame.f_back
        if len(self.stack) > keep:
            self.append(ReturnRow(len(self.stack) - keep))
            del self.stack[keep:]
        for each in reversed(entered):
            self._enter(each)
        self.top = self.stack[-1] if self.stack else None

    def _activation(self, frame: Any) -> Activation | None:
        mark = frame.f_trace
        if type(mark) is Activation:
            known = mark.depth < len(self.stack) and self.stack[mark.depth] is mark
            return mark if known else None
        if mark is not None:  # a debugger owns the frame: know it by its address and code
            for each in self.stack:
                if each.address == id(frame) and each.code is frame.f_code:
                    return each
        return None

    def _enter(self, frame: Any) -> None:
        code = frame.f_code
        site = None
        if self.stack:
            caller = frame.f_back
            while caller is not None and not isinstance(self.sites.of(caller.f_code), dict):
                caller = caller.f_back
            if caller is not None and caller.f_code is self.stack[-1].code:
                site = self._site_in(caller)
        made = Activation(code, len(self.stack), self.in_arm(site), id(frame), len(self.tokens), site)
        if frame.f_trace is None or type(frame.f_trace) is Activation:
            frame.f_trace = made
        key = id(code), site
        number = self._enter_numbers.get(key)
        if number is None:
            number = self.number_of(EnterRow(code.co_qualname, site, code.co_firstlineno))
            self._enter_numbers[key] = number
        self.append_number(number)
        self.stack.append(made)

    def _site_in(self, frame: Any) -> int:
        sites = self.sites.of(frame.f_code)
        assert isinstance(sites, dict)
        site = sites.get(frame.f_lasti)
        return self.sites.learn(frame.f_code, frame.f_lasti) if site is None else site

    def in_arm(self, site: int | None) -> bool:
        """Whether the program is in an arm that the value of a tensor chose."""
        return bool(self.stack and self.stack[-1].in_arm) or (site is not None and self.sites.in_arm(site))

    # -- which tensor is which --------------------------------------------------------------------------------------

    def reference(self, tensor: torch.Tensor) -> Reference:
        """Where a tensor comes from, seen from the next row."""
        entry = self.entry(tensor)
        place = entry[1]
        return (len(self.tokens) - place if place >= 0 else place), entry[2] % PORTS

    def entry(self, tensor: torch.Tensor) -> Entry:
        """The entry of a tensor; an unknown one becomes an input, a changed one a new value."""
        found = self.ids.get(id(tensor))
        if found is None or found[0]() is not tensor:
            return self.unknown(tensor)
        if self.written and found[3] is not None and found[3] != tensor._version:
            return self.changed(tensor, found)
        return found

    def unknown(self, tensor: torch.Tensor) -> Entry:
        """A tensor that this step did not make: a new input."""
        known = self.parameters.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] is tensor.requires_grad:
            weak, _, number, port, leaf = known
        else:
            opaque = self._opaque_output(tensor)
            if opaque is not None:
                return opaque
            weak = ref(tensor)
            number, port, leaf = self._input(tensor)
        self.input_places.append(len(self.tokens))
        self.bound.append(leaf)
        if leaf >= 0:
            self.leaves.of_step.append(weak)
        self.counts[number][2] += 1
        self.tokens.append(number)
        self.numbers.append(sequence_number())
        self.times.append(0)
        made = (weak, -len(self.input_places), port, _version(tensor))
        self.ids[id(tensor)] = made
        earlier = self.earlier.get(id(tensor))
        if earlier is not None and earlier.origin is not None and earlier.tensor() is tensor:
            self.origins[len(self.input_places)] = earlier.origin
        if self.sampling:
            self.sample(len(self.tokens) - 1, tensor)
        return made

    def _input(self, tensor: torch.Tensor) -> tuple[int, int, int]:
        port = self.port_of(tensor)
        earlier = self.earlier.get(id(tensor))
        site = name = None
        if earlier is not None and earlier.tensor() is tensor:
            site, name = earlier.site, earlier.name
        facts = self._input_facts(tensor, port, site, name)
        number = self._input_numbers.get(facts)
        if number is None:
            number = self._input_numbers[facts] = self.number_of(InputRow(*facts))
        leaf = -1
        if tensor.requires_grad and tensor.is_leaf and not transforms_active():
            leaf = self.leaves.number_of(tensor, facts[2], facts[3])
            key = storage_key(tensor)
            if key is not None:
                self.leaves.storages[key] = ref(tensor)
        if facts[0] == "parameter":
            self.parameters[id(tensor)] = (ref(tensor), tensor.requires_grad, number, port, leaf)
        return number, port, leaf

    def _input_facts(
        self, tensor: torch.Tensor, port: int, site: int | None, name: str | None
    ) -> tuple[InputKind, int, str | None, int | None]:
        """The fields of the tensor's `InputRow`."""
        named = self.scopes.name_of(tensor)
        if named is not None:
            name = named[0]
        what: InputKind
        if isinstance(tensor, torch.nn.Parameter):
            what, site = "parameter", None
        elif named is not None and named[1]:
            what, site = "buffer", None
        elif not tensor.is_leaf:
            what = "carried"
        else:
            what = "leaf" if tensor.requires_grad else "data"
        return what, port // PORTS, name, site

    def inputs_by_place(self) -> dict[tuple[int, int], InputRow]:
        """What the living results of this step would be as inputs of the next: by (place, output)."""
        found = {}
        for weak, place, port, _ in self.ids.values():
            tensor = weak()
            if tensor is not None and place >= 0:
                found[place, port % PORTS] = InputRow(*self._input_facts(tensor, port, *self._origin(place)))
        return found

    def name_of(self, tensor: torch.Tensor) -> str | None:
        """The name of a tensor: its path in the model, or the variable it was first given to."""
        named = self.scopes.name_of(tensor)
        if named is not None:
            return named[0]
        entry = self.ids.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            place = entry[1] if entry[1] >= 0 else self.input_places[-entry[1] - 1]
            row = self.rows[self.tokens[place]].row
            return row.name if isinstance(row, InputRow) else self._origin(place)[1]
        earlier = self.earlier.get(id(tensor))
        return earlier.name if earlier is not None and earlier.tensor() is tensor else None

    def _origin(self, place: int) -> tuple[int | None, str | None]:
        """(site, name) of the value that the row at `place` made."""
        site = getattr(self.rows[self.tokens[place]].row, "site", None)
        return site, None if site is None else self.sites.bodies[site][8]

    def _opaque_output(self, tensor: torch.Tensor) -> Entry | None:
        """If a compiled or scripted function of this step made the tensor: write that call down as its node."""
        if not self.opaque or tensor.is_leaf:
            return None
        from plait.recorder._new_row import opaque_output

        node = grad_fn_of(tensor)
        if node is None:
            return None
        number = node_number(node)
        for call in self.opaque:
            if call.first <= number < call.last:
                return opaque_output(self, call, tensor)
        return None

    def changed(self, tensor: torch.Tensor, old: Entry) -> Entry:
        """A tensor whose version moved although no call named it: something wrote to its storage."""
        from plait.recorder._new_row import backward_nodes

        here = len(self.tokens)
        key = storage_key(tensor)
        writer = self.writers.get(key) if key is not None else None
        place = old[1]
        value = (here - place if place >= 0 else place), old[2] % PORTS
        port = self.port_of(tensor)
        grad_fn: tuple[int, int] | None = None
        backward: tuple[Any, ...] = ()
        if tensor.requires_grad and not tensor.is_leaf and not transforms_active():
            # The node of a view is made anew when it is asked for: asking comes first, so that it is known here.
            node = grad_fn_of(tensor)
            backward, _ = backward_nodes(self, here, [tensor], sequence_number())
            found = None if node is None else self.find_node(node_number(node))
            if found is not None:
                grad_fn = here - found[0], found[1]
        by = None if writer is None else here - writer
        self.append(AliasRow(value, by, port // PORTS, grad_fn, output_number(tensor), backward))
        made = (old[0], here, port // PORTS * PORTS, tensor._version)
        self.ids[id(tensor)] = made
        return made

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

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a step of the recording made or used the tensor."""
        for table in (self.ids, self.earlier):
            found = table.get(id(tensor))
            if found is not None and found[0]() is tensor:
                return True
        return False

    def event(
        self, what: str, site: int | None, about: Iterable[torch.Tensor] = (), detail: str = "", **facts: int | str
    ) -> None:
        """Write down something that is no operation; tensors that the step does not know are left out."""
        values = []
        for tensor in about:
            entry = self.ids.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                place = entry[1]
                values.append((len(self.tokens) - place if place >= 0 else place, entry[2] % PORTS))
        self.append(EventRow(what, detail, site, tuple(values), tuple(facts.items())))

    def leaf_written(self, leaf: torch.Tensor | None, site: int | None) -> None:
        """The program wrote to a leaf itself: an update, if the leaf has a gradient."""
        if leaf is not None and leaf.grad is not None and self.leaves.updated([leaf])[0]:
            self.event("update", site, (leaf,), stale=1)

    def mode_changed(self, enabled: bool, site: int | None) -> None:
        """Gradient recording is not as it was at the last call."""
        inference = torch.is_inference_mode_enabled()
        mode = "inference_mode" if inference or self.inference else "no_grad" if not enabled else "enable_grad"
        self.grad, self.inference = enabled, inference
        self.circumstances = 2 * (self.backward_depth > 0) + 4 * inference
        self.append(ModeRow(mode, enabled, site))

    def mode_switched(self, enabled: bool, frame: Any) -> None:
        """The program switches gradient recording, here."""
        self.append(ModeRow("enable_grad" if enabled else "no_grad", enabled, self.site_of(frame)))

    # -- the next step ----------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the step under way; what is still alive is known as coming from an earlier step."""
        for address, (weak, place, port, _) in self.ids.items():
            if place >= 0 and weak() is not None:
                self.earlier[address] = Earlier(weak, *self._origin(place), (self.span, place, port % PORTS))
        if len(self.earlier) > 4096:
            self.earlier = {key: each for key, each in self.earlier.items() if each.tensor() is not None}
        self._keep_span()
        self.tokens.clear()
        self.numbers.clear()
        self.times.clear()
        self.ids.clear()
        self.reads.clear()
        self.writers.clear()
        self.extra_nodes.clear()
        self.samples.clear()
        self.opaque.clear()
        self.input_places.clear()
        self.bound.clear()
        self.leaves.of_step.clear()
        self.origins = {}
        self.compared = None
        self.written = False
        self.first_number = sequence_number()
        # The functions that are under way enter again at the next event, so that every step stands alone.
        self.stack.clear()
        self.top = None
        # A step says how gradient recording was switched when it began, unless it was on.
        if not self.grad:
            self.append(ModeRow("inference_mode" if self.inference else "no_grad", False, None))

    def _keep_span(self) -> None:
        """Keep what is on the tape for errors that reach back into it; copies of flat tables, so next to nothing."""
        if self.tokens:
            self.past.append(self.open_span())
            self.span += 1
            self._past_rows += len(self.tokens)
            while self.past and (len(self.past) > SPANS_KEPT or self._past_rows > SPAN_ROWS):
                self._past_rows -= len(self.past.popleft().tokens)

    def open_span(self) -> Span:
        """What is on the tape now."""
        return Span(
            self.span, self.first_number, self.tokens.copy(), self.numbers.copy(), self.ids.copy(),
            self.input_places.copy(), self.origins, self.extra_nodes.copy(),
        )  # fmt: skip

    def broken(self, error: Exception) -> None:
        """Something of plait's own failed: the recording stops, the program goes on."""
        if STRICT:
            raise error
        self.on_broken(error)

    def guarded(self, func: Callable[..., R], *args: Any) -> R | None:
        """What one of plait's own functions returns; None, and the recording stops, if it fails."""
        try:
            return func(*args)
        except Exception as error:
            self.broken(error)
            return None

    def failed(
        self, func: Any, error: BaseException, site: int | None, args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A call raised. Written down once, at the call where the error began."""
        if isinstance(error, Exception):
            self.guarded(self.on_failed, func, error, site, args, kwargs or {})
            self.guarded(self._failed, func, error, site, args, kwargs or {})

    def _failed(
        self, func: Any, error: Exception, site: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        text = str(error)
        detail = f"{plain_name(func)}: {type(error).__name__}: {text.splitlines()[0][:200] if text else ''}"
        facts = {"op": plain_name(func), "error": type(error).__name__, **self._about(args, kwargs)}
        self.event("error", site, self._tensors(args, kwargs), detail, **facts)

    def _tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        from plait.recorder._new_row import tensors_in

        return [tensor for _, tensor in tensors_in(args, kwargs)][:16]

    def _about(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, int | str]:
        """What else rules ask about a call that failed: ragged arguments, small whole numbers."""
        found: dict[str, int | str] = {}
        for tensor in self._tensors(args, kwargs):
            if tensor.layout is torch.jagged:
                found["jagged"] = int(found.get("jagged", 0)) + 1
            elif "numbers" not in found and _few_numbers(tensor):
                found["numbers"] = str(tensor.detach().tolist())
        return found

    def sample(self, place: int, result: Any) -> None:
        """Keep the elements of small results while the run is young and the step is small."""
        if len(self.tokens) > SMALL_GRAPH:
            self.sampling = False
            return
        for output, tensor in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
                continue
            if tensor.numel() <= SMALL_TENSOR and not transforms_active():
                self.samples.append((place, output, "value", tensor.tolist()))

    def place_result(
        self, counts: list[Any], here: int, before: int, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Write down a row that is no ordinary call, and note its results."""
        from plait.recorder._new_row import MANY, UNRECORDED, after_special_row

        if counts[3] & UNRECORDED:
            return
        counts[2] += 1
        self.tokens.append(counts[0])
        self.numbers.append(before)
        self.times.append(0)
        if not counts[3] & MANY:
            counts[3] |= MANY
            counts[4] = (counts[4],)
        after_special_row(self, counts, here, None, args, kwargs, result)

    def tick(self, now: int, place: int, result: Any) -> None:
        """The deadline is over: a second has passed, or small tensors are being kept."""
        if self.sampling:
            self.sample(place, result)
        if now > self._next_tick:
            self._next_tick = now + 1_000_000_000
            self.on_deadline()
        self.deadline = 0 if self.sampling else self._next_tick


def _few_numbers(tensor: torch.Tensor) -> bool:
    """Whether it is a short row of whole numbers on the CPU (lengths, sizes)."""
    small = tensor.dtype is torch.int64 and tensor.dim() == 1 and tensor.numel() <= 64
    return small and tensor.device.type == "cpu" and not transforms_active()


def _version(tensor: torch.Tensor) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors have none
        return None
