"""Records the calls of all lanes as waiting nodes; runs them in groups when somebody needs a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from plait import _torch as private
from plait._watch import BatchWatch
from plait.batching._alone import alone
from plait.batching._build import LaneRows, build
from plait.batching._constants import const, shared_call
from plait.batching._core_choice import Core, Entry
from plait.batching._current import PER_BATCH, Runtime
from plait.batching._deferred import defer_met
from plait.batching._execute import Executor
from plait.batching._lazy import Lazy
from plait.batching._marks import INPUT, Const
from plait.batching._meta import Space, meta_of
from plait.batching._names import DATA_FIRST, WEIGHTS, function_of
from plait.batching._random import random_call
from plait.batching._report import Report
from plait.batching._rows import join, rows_view
from plait.batching._schedule import components
from plait.batching._shared import shared_source, unwrap
from plait.batching._signature import Sig, scalar_key
from plait.batching._site import refuse, site_key
from plait.batching._writes import fresh

ALL = frozenset(range(32))
NUMBERED = frozenset({"add", "sub", "mul", "div"})
NUMBERED_DTYPES = (torch.float32, torch.float64)  # in others a Python number is more exact than a tensor of the dtype
FEW = 3  # numbers that have a kind of call each
FIXED = (nn.Parameter, Tensor, str, torch.dtype, torch.device, torch.layout, torch.memory_format)  # known by identity


_batches = count(1)


class LaneRuntime(Runtime, LaneRows):
    """The runtime of one call of a batched function."""

    def __init__(self, report: Report, randomness: str, device: torch.device, names: Callable[[Tensor], str]) -> None:
        self.core = Core(Lazy, INPUT, torch.is_grad_enabled, private.is_autocast_on, components, Tensor, FIXED)
        super().__init__()
        self.core.base = next(_batches) * PER_BATCH
        self.report = report
        self.randomness = randomness
        self.names = names
        self.device = device
        self.entries: dict[tuple[Any, ...], Entry] = self.core.entries
        self.sigs: dict[tuple[Any, ...], Sig] = {}
        self.sig_list: list[Sig] = []
        self.families: dict[Any, Any] = {}  # ragged calls by what they are apart from the length
        self.spaces: dict[Space, int] = {}
        self.take = self.core.take
        self.record = self.core.record
        self.exec = Executor(self)
        self.promoted: dict[int, tuple[Tensor, Lazy]] = {}
        self.calls: dict[Any, Any] = {}
        self.keep: list[Any] = []  # whatever is known by its id() must stay alive
        self.random_calls: dict[int, int] = {}
        self.viewed: set[int] = set()
        self.module_kinds: dict[Any, str] = {}
        self.numbers: dict[Any, dict[Any, int | None]] = {}  # Python numbers that ops were called with
        self.deferred: set[type] = set()  # classes of modules whose calls come to `_cells` first
        self.seed = 0
        self.pause: Callable[[Any], Any] = lambda request: None
        self.watch: BatchWatch | None = None
        self.checks: Any = None  # see `_lanes`
        self.exchanging = 0  # exchanges of weights that the example is inside of; see `_exchanged`
        self.inside = ""  # of what PyTorch calls an example is that must end before another example runs
        self.exchanges = 0  # ... that there were: after the first, a module's call is known by its weights too
        self.changes = 0  # of modules, by the function itself
        self.reads: dict[Any, Any] = {}  # what cells have read besides their arguments; see `_reads`

    # methods with a file of their own
    rows_view = rows_view
    shared_call = shared_call
    alone = alone
    random = random_call

    def close(self) -> None:
        """Lets go of the executor, which knows the runtime: without that circle, memory is given back at once."""
        del self.exec

    @property
    def lane(self) -> int:
        """The example whose code runs, as a number of its own (see `lane_of`)."""
        return self.core.lane  # type: ignore[no-any-return]

    @lane.setter
    def lane(self, lane: int) -> None:
        self.core.lane = lane

    @property
    def example(self) -> int:
        return max(int(self.core.lane - self.core.base), -1)

    def lane_of(self, example: int) -> int:
        """The number by which its values are told from those of all other examples, and of other batches."""
        return self.core.base + example  # type: ignore[no-any-return]

    def exchanged(self, by: int) -> None:
        """An example exchanges the weights of a module, or puts them back."""
        self.exchanging += by
        self.exchanges += 1
        self.core.forget()
        self._check_waits()

    @contextmanager
    def unpaused(self, what: str) -> Iterator[None]:
        before, self.inside = self.inside, what
        self._check_waits()
        try:
            yield
        finally:
            self.inside = before
            self._check_waits()

    def _check_waits(self) -> None:
        self.core.checks = None if self.exchanging or self.inside else self.checks  # to wait then takes the long way

    def forget_modules(self) -> None:
        """An example changes a module: what is known of calls of modules does not hold any more."""
        self.changes += 1
        self.module_kinds.clear()
        self.core.forget()

    # ------------------------------------------------------------------ pure calls
    def emit(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        res = self.core.call(name, None, args, False, kwargs)
        if res is not NotImplemented:
            return res
        if name in NUMBERED and len(args) == 2 and not kwargs:
            args = self._numbered(name, *args)
        if name == "cat" or name == "stack":
            joined = join(self, name, args, kwargs)
            if joined is not None:
                return joined
        key: list[Any] = [name, torch.is_grad_enabled(), private.autocast_state()]
        ins: list[Lazy] = []
        shared = WEIGHTS.get(name, ALL if name not in DATA_FIRST else frozenset()) if type(name) is str else ALL
        lazy = False
        for i, a in enumerate(args):
            if type(a) is Lazy and a.extra is None:
                if a.lane != self.lane:
                    self.foreign(a)
                key.append(a.meta)
                ins.append(a)
                lazy = True
            else:
                lazy = self._scan(a, key, ins, i in shared) or lazy
        for k, v in kwargs.items():
            key.append(k)
            lazy = self._scan(v, key, ins, True) or lazy
        if not lazy:
            return self._all_shared(name, args, kwargs)
        frozen = tuple(key)
        entry = self.entries.get(frozen)
        if entry is None:
            entry = self.entries[frozen] = build(self, name, args, kwargs, ins, shared, frozen)
            defer_met(self)
        self.core.remember(name, None, None, args, kwargs, ins, entry)
        return self.record(entry, ins)

    def _numbered(self, name: str, x: Any, y: Any) -> tuple[Any, Any]:
        """`x + 1`, `x + 2`, `x + 3`, ...: one call with the number as a row, in place of one kind of call for each."""
        number, value = (x, y) if type(y) is Lazy else (y, x)
        t = type(number)
        if (t is not int and t is not float) or type(value) is not Lazy or type(value.extra) is Const:
            return x, y
        meta = value.meta
        if meta.dtype not in NUMBERED_DTYPES or (name == "div" and self.device.type != "cpu"):
            return x, y
        seen = self.numbers.setdefault((name, value is x, meta), {})
        key = scalar_key(number)
        if key not in seen:
            seen[key] = None if len(seen) < FEW else self.exec.number(number, meta)
        slot = seen[key]
        if slot is None:
            return x, y
        handle = Lazy(slot, meta_of((), meta.dtype, meta.device, False), self.lane, None)
        return (value, handle) if value is x else (handle, value)

    def _scan(self, a: Any, key: list[Any], ins: list[Lazy], weight: bool) -> bool:
        """Adds one argument to the key and its values to `ins`; True if it depends on the example."""
        t = type(a)
        if t is Lazy:
            e = a.extra
            if type(e) is Const:
                return self._scan_shared(e.tensor, a, key, ins, weight)
            if e is not None and e is not INPUT:
                fresh(self, a)
            if a.lane != self.lane:
                self.foreign(a)
            key.append(a.meta)
            ins.append(a)
            return True
        if t is tuple or t is list:
            key.append(t)
            key.append(len(a))
            lazy = False
            for x in a:
                lazy = self._scan(x, key, ins, weight) or lazy
            return lazy
        if t is dict:
            key.append(len(a))
            lazy = False
            for k, x in a.items():
                key.append(k)
                lazy = self._scan(x, key, ins, weight) or lazy
            return lazy
        if isinstance(a, Tensor):
            return self._scan_shared(a, None, key, ins, weight)
        key.append(scalar_key(a))
        return False

    def _scan_shared(self, t: Tensor, handle: Lazy | None, key: list[Any], ins: list[Lazy], weight: bool) -> bool:
        if not self.is_row(t, weight):
            self.numbers_of(t)
            key.append(("shared", id(t)))  # writes to it are refused while lanes run
            if id(t) not in self.promoted:
                self.keep.append(t)
            return False
        x = self.promote(t)
        if handle is not None:
            handle.extra.row = x
        key.append(x.meta)
        ins.append(x)
        return False

    def promote(self, t: Tensor) -> Lazy:
        """A shared tensor as a row of its own, so that it batches with values of examples in the same place."""
        found = self.promoted.get(id(t))
        if found is None:
            self.numbers_of(t)
            with private.DisableTorchFunction():
                meta = meta_of(tuple(t.shape), t.dtype, t.device, t.requires_grad)
                x = Lazy(self.take(meta.rows), meta, self.lane, None)
                self.exec.add_leaf(t, x.slot, meta)
            found = self.promoted[id(t)] = (t, x)  # handed out as copies: a handle may be rebound by a write
        return Lazy(found[1].slot, found[1].meta, self.lane, None)

    def numbers_of(self, t: Tensor) -> None:
        """Refuses what has none: a tensor that some C++ has made of a value, or one that is not laid out in rows."""
        with private.DisableTorchFunction():
            nowhere, sparse = t.device.type == "meta" != self.device.type, t.layout != torch.strided
        if nowhere:
            refuse(
                "a tensor without numbers (device='meta') inside plait.batch",
                "a function that plait cannot look into (torch.Tensor(x), say) has made it of a value; call such a "
                "function outside of plait.batch",
            )
        if sparse and t.requires_grad:
            refuse("a sparse tensor that requires a gradient inside plait.batch", "use it outside, or make it dense")

    def add_sig(self, sig: Sig) -> None:
        """Makes a signature known to the core, under the number it has."""
        ins = tuple([per for _, _, _, per in sig.in_metas])
        spaces = tuple([self.space_id(s) for s in sig.out_spaces])
        number = self.core.sig(int(sig.kind == "gather"), int(sig.ragged), ins, tuple(sig.out_rows), spaces)
        assert number == sig.index == len(self.sig_list)
        sig.ready(
            [self.exec.arena(space) for _, _, space, _ in sig.in_metas], [self.exec.arena(s) for s in sig.out_spaces]
        )
        self.sig_list.append(sig)
        self.report.kinds[sig.name] += 1

    def space_id(self, space: Space) -> int:
        k = self.spaces.get(space)
        if k is None:
            k = self.spaces[space] = len(self.spaces)
            self.exec.add_arena(space)
        return k

    def foreign(self, x: Lazy) -> NoReturn:
        example = x.lane - self.core.base
        if x.lane < 0:
            what = "a value from inside of a cell is used outside of it"
        elif 0 <= example < PER_BATCH:
            what = f"example {self.example} uses a value that example {example} made"
        else:
            what = f"example {self.example} uses a value that an earlier call of plait.batch made"
        refuse(
            what,
            "each example must be a function of its own arguments; return the value instead of keeping it in an "
            "attribute, a list or a global (what all examples may use, such as a mask, can be made before)",
        )

    def _all_shared(self, name: Any, args: Any, kwargs: Any) -> Any:
        from plait.batching.kernels.pointwise import OWN

        if name == "view_scatter":
            root, new, chain = unwrap(args)
            with private.DisableTorchFunction():
                out = root.clone()
                part = out
                for n, a, k in chain:
                    part = (Tensor.__getitem__ if n == "__getitem__" else function_of(n))(part, *a, **dict(k))
                part.copy_(new)
            return const(self, out, ())
        f = OWN.get(name) or (function_of(name) if type(name) is str else name)
        return self.shared_call(str(name), f, unwrap(args), unwrap(kwargs))

    def own(self, x: Lazy) -> None:
        """A constant that this lane is about to write becomes a row of its own (its tensor is shared)."""
        e = x.extra
        if type(e) is Const:
            with private.DisableTorchFunction():
                if e.tensor.untyped_storage().data_ptr() in self.viewed:
                    refuse("a write in place to a constant that has another name", "clone it first")
            p = self.promote(e.tensor)
            x.slot, x.meta = p.slot, p.meta
            x.extra = None

    def name_of(self, x: Any) -> str:
        return self.names(x) if isinstance(x, Tensor) else shared_source(x)

    # ------------------------------------------------------------------ values
    def read(self, x: Lazy) -> Any:
        if type(x.extra) is Const:
            with private.DisableTorchFunction():
                return x.extra.tensor.detach().tolist()
        if x.extra is not None:
            fresh(self, x)
        if x.lane != self.lane:
            self.foreign(x)
        if not self.exec.done(x.slot):
            return self.pause(("read", x, site_key(2)))
        with private.DisableTorchFunction():
            return self.exec.value(x).tolist()

    def tensor(self, x: Lazy) -> Tensor:
        """The value as a tensor of its own (no gradient)."""
        if type(x.extra) is Const:
            return x.extra.tensor.detach()
        if x.extra is not None:
            fresh(self, x)
        if x.lane != self.lane:
            self.foreign(x)
        if not self.exec.done(x.slot):
            self.pause(("wait", x, site_key(2)))
        with private.DisableTorchFunction():
            return self.exec.value(x).clone()

    def reals(self, a: Any) -> Any:
        t = type(a)
        if t is Lazy:
            return self.tensor(a)
        if t is tuple or t is list:
            return t(self.reals(x) for x in a)
        if t is dict:
            return {k: self.reals(v) for k, v in a.items()}
        return a
