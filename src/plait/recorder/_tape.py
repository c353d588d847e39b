"""The tape: what has happened in the step that is under way, and which tensor is which.

Numbers for everything that repeats are in `_ledger.py`, the functions under way in `_calls.py`, what a call made in
`_new_row.py`. See NOTE [Hot keys] and NOTE [Entries] there and in `_entries.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from weakref import ref

import torch

from plait._settings import STRICT
from plait._torch import grad_fn_of, node_number, output_number, sequence_number, storage_key, transforms_active
from plait.graph._model import InputKind
from plait.graph._rows import AliasRow, EventRow, InputRow, ModeRow, Reference
from plait.recorder._calls import CallStack
from plait.recorder._entries import PORTS, Earlier, Entry, reference_from
from plait.recorder._leaves import Leaves
from plait.recorder._ledger import Ledger
from plait.recorder._nodes import backward_nodes
from plait.recorder._opaque import OpaqueCall, opaque_output
from plait.recorder._raised import note_error
from plait.recorder._scopes import Scopes
from plait.recorder._sites import Sites
from plait.recorder._spans import Spans

SMALL_GRAPH: Final = 80  # rows of a step up to which small tensors are kept,
SMALL_TENSOR: Final = 8  # up to this many elements,
SAMPLED_STEPS: Final = 3  # in the first steps of the run
R = TypeVar("R")


class Tape(Ledger):
    """The step that is under way, row for row and tensor for tensor."""

    def __init__(self, sites: Sites, values: str) -> None:
        super().__init__(sites)
        self.values = values
        self.calls = CallStack(sites, self)
        self.spans = Spans(self)
        self.parameters: dict[int, tuple[Any, bool, int, int, int]] = {}
        self.scopes = Scopes(on_names=self.parameters.clear)
        self.leaves = Leaves()
        self.scopes.on_model = lambda root, outer: self.leaves.model(root, outer, self.scopes.name_of)
        # The step under way.
        self.ids: dict[int, Entry] = {}
        self.input_places: list[int] = []
        self.bound: list[int] = []  # for every input the number of the leaf that it is, or -1
        self.reads: list[tuple[Any, Any, Any]] = []
        self.writers: dict[int, int] = {}
        self.samples: list[tuple[int, int, str, Any]] = []
        self.compared: tuple[int, Any, Any, str] | None = None
        self.opaque: list[OpaqueCall] = []
        self.batches: list[tuple[int, int, tuple[Any, ...]]] = []  # batched runs: place, number, row
        self.origins: dict[int, tuple[int, int, int]] = {}  # the k-th input -> the result of an earlier span it is
        # Whether anything was written in place in this step: only then can a tensor have changed behind our back.
        self.written = False
        # What stays from step to step.
        self.earlier: dict[int, Earlier] = {}
        self._input_numbers: dict[tuple[Any, ...], int] = {}
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.backward_depth = 0
        self.circumstances = 4 * self.inference  # part of every hot key: 2 in a backward pass, 4 in inference mode
        self.armed = False
        self.sampling = True
        self.deadline = 0  # when the handler calls `tick`; 0 (always) while small tensors are kept
        self._next_tick = 0
        self.on_broken: Callable[[Exception], None] = lambda error: None
        self.on_failed: Callable[..., None] = lambda *_: None
        self.on_armed: Callable[[], None] = lambda: None
        self.on_deadline: Callable[[], None] = lambda: None

    # -- which tensor is which --------------------------------------------------------------------------------------

    def reference(self, tensor: torch.Tensor) -> Reference:
        """Where a tensor comes from, seen from the next row."""
        entry = self.entry(tensor)  # this may write a row
        return reference_from(len(self.tokens), entry)

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
            opaque = opaque_output(self, tensor)
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

    def changed(self, tensor: torch.Tensor, old: Entry) -> Entry:
        """A tensor whose version moved although no call named it: something wrote to its storage."""
        here = len(self.tokens)
        key = storage_key(tensor)
        writer = self.writers.get(key) if key is not None else None
        value = reference_from(here, old)
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
                values.append(reference_from(len(self.tokens), entry))
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
        self.append(ModeRow("enable_grad" if enabled else "no_grad", enabled, self.calls.site_of(frame)))

    # -- the next step ----------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the step under way; what is still alive is known as coming from an earlier step."""
        for address, (weak, place, port, _) in self.ids.items():
            if place >= 0 and weak() is not None:
                self.earlier[address] = Earlier(weak, *self._origin(place), (self.spans.number, place, port % PORTS))
        if len(self.earlier) > 4096:
            self.earlier = {key: each for key, each in self.earlier.items() if each.tensor() is not None}
        self.spans.keep()
        super().clear()
        self.calls.clear()
        self.ids.clear()
        self.reads.clear()
        self.writers.clear()
        self.samples.clear()
        self.opaque.clear()
        self.batches.clear()
        self.input_places.clear()
        self.bound.clear()
        self.leaves.of_step.clear()
        self.origins = {}
        self.compared = None
        self.written = False
        # A step says how gradient recording was switched when it began, unless it was on.
        if not self.grad:
            self.append(ModeRow("inference_mode" if self.inference else "no_grad", False, None))

    # -- errors, and the clock --------------------------------------------------------------------------------------

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
            self.guarded(note_error, self, func, error, site, args, kwargs or {})

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

    def tick(self, now: int, place: int, result: Any) -> None:
        """The deadline is over: a second has passed, or small tensors are being kept."""
        if self.sampling:
            self.sample(place, result)
        if now > self._next_tick:
            self._next_tick = now + 1_000_000_000
            self.on_deadline()
        self.deadline = 0 if self.sampling else self._next_tick


def _version(tensor: torch.Tensor) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors have none
        return None
