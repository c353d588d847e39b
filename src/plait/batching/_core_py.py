"""The recording core in Python: the reference for `core/core.c`, and what runs where no compiler was there."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

from plait.batching._plan_py import Planner


class MetaBase:
    __slots__ = ("lead", "number", "row", "rows", "tracks", "truth")
    lead: int
    rows: int
    row: Any
    tracks: bool
    number: int  # one number: 1 float32, 2 float64, 3 whole; else 0
    truth: Any  # meta of a comparison of the value with a number


class LazyBase:
    __slots__ = ("__weakref__", "extra", "lane", "meta", "slot")

    def __init__(self, slot: int, meta: Any, lane: int, extra: Any) -> None:
        self.slot = slot
        self.meta = meta
        self.lane = lane
        self.extra = extra


@dataclass(slots=True, eq=False, repr=False)
class Test:
    """A comparison with a number that nobody has needed as a tensor yet: an `if` only wants to know yes or no."""

    name: str
    value: Any
    other: Any


class CellBase:
    """A function whose calls are one node; see `plait.batching._cells.Cell`."""

    method = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._slow(*args, **kwargs)  # type: ignore[attr-defined]

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else MethodType(self, obj)


class FastCall:
    """What stands as `__call__` in the classes of torch.nn while lanes run; `slow` is called with the module first. In
    the compiled core, with a name, a method of values as well."""

    def __init__(self, slow: Callable[..., Any], name: str | None = None) -> None:
        self.slow = slow

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.slow(*args, **kwargs)

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else MethodType(self, obj)


def use(core: Any) -> None:
    """Whose lanes run in this thread: the compiled core takes its short cuts only then. There are none here."""


_slow: list[Callable[..., Any]] = []


def install(
    names: Any,
    slow: Callable[..., Any],
    ours: Any,
    site: Any,
    handle: Callable[..., Any],
    constant: type,
    modes: Any,
    autocast: Any,
    words: bytes,
) -> None:
    """The long ways that the short cuts fall back on."""
    _slow[:] = [slow, handle, constant]


def straight(on: bool) -> None:
    """Whether calls of those functions come to the compiled core before PyTorch looks at them."""


def handle(*args: Any, **kwargs: Any) -> Any:
    """In place of `torch.overrides.handle_torch_function` while lanes run."""
    return _slow[1](*args, **kwargs)


def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What PyTorch calls while lanes run."""
    return _slow[0](func, args, kwargs or {})


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """What a call seen before needs: its signature, and the metas of its results."""

    sig: int
    length: int
    rows: int
    offs: tuple[int, ...]
    metas: tuple[Any, ...]
    single: int
    wrap: Any


class Core(Planner):
    """Records calls as waiting nodes; finds a call seen before by its key."""

    def __init__(
        self,
        lazy: type,
        given: Any,
        grad_enabled: Callable[[], bool],
        autocast: Callable[[], bool],
        components: Callable[[list[tuple[int, ...]]], list[int]],
        tensor: type,
        fixed: tuple[type, ...],
    ) -> None:
        super().__init__(components)
        self._tensor = tensor
        self._fixed = fixed  # types whose objects stand for themselves in a call
        self._seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._turns: Any = iter(())
        self.entries: dict[Any, Entry] = {}
        self.lane = -1  # the example that runs, as a number that no other batch has
        self.base = 0  # example 0
        self.on_node: Callable[[], object] | None = None  # called before each new node
        self.pause: Any = None  # these are for the compiled core's short cuts
        self.waiting: Any = None
        self.getcurrent: Any = None
        self.current: Any = None
        self.hub: Any = None
        self.checks: Any = None
        self.settings: Any = None
        self.plain = False
        self.cast = False
        self._lazy = lazy
        self._input = given
        self._grad = grad_enabled
        self._autocast = autocast

    # ------------------------------------------------------------------ recording
    def inputs(self, metas: Sequence[Any]) -> list[Any]:
        """A value for each example, whose numbers come from outside."""
        return [self._lazy(self.take(m.rows), m, self.base + i, self._input) for i, m in enumerate(metas)]

    def put(self, sig: int, length: int, ins: tuple[int, ...], rows: int) -> int:
        if self.on_node is not None:
            self.on_node()
        base = self._slots(rows, len(self._nodes))
        self._nodes.append([sig, length, base, ins, self.lane - self.base])
        return base

    def record(self, entry: Entry, lazies: Sequence[Any]) -> Any:
        base = self.put(entry.sig, entry.length, tuple([x.slot for x in lazies]), entry.rows)
        if entry.single:
            return self._lazy(base, entry.metas[0], self.lane, None)
        res = tuple([self._lazy(base + off, m, self.lane, None) for off, m in zip(entry.offs, entry.metas)])
        return res if entry.wrap is None else entry.wrap(res)

    def _usable(self, a: Any) -> bool:
        if type(a) is not self._lazy or a.lane != self.lane:  # type: ignore[attr-defined]
            return False
        e = a.extra  # type: ignore[attr-defined]
        if e is None or e is self._input:
            return True
        return type(e) is self._lazy and (e.extra is None or e.extra is self._input)

    def _describe(self, a: Any, parts: list[Any], lazies: list[Any], consts: bool) -> bool:
        """Adds one argument: fixed objects as themselves, values by their meta, numbers by type and spelling. `consts`:
        a constant stands for its row."""
        t = type(a)
        if t is self._lazy:
            if consts and type(a.extra) is _slow[2]:
                a = a.extra.row
                if a is None:
                    return False
                lazies.append(a)
                parts.append(id(a.meta))
                return True
            if not self._usable(a):
                return False
            lazies.append(a)
            parts.append(id(a.meta))
        elif a is None or t is bool or t in self._fixed:
            parts.append(id(a))
        elif t is int or t is float:
            parts.append((t, repr(a)))
        elif t is tuple or t is list:
            parts.append((t, len(a)))
            return all(self._describe(x, parts, lazies, consts) for x in a)
        else:
            return False
        return True

    def _parts(
        self, key: Any, flag: Any, owner: Any, args: Any, kwargs: Any, lazies: list[Any]
    ) -> tuple[Any, ...] | None:
        if self._autocast():
            return None  # under autocast the dtype matters too: the long way
        consts = type(key) is not str  # an op may take a constant as it is; a cell takes its row
        parts: list[Any] = [self._grad(), owner]
        parts += key if type(key) is tuple else (key,)
        if type(flag) is tuple and not self._describe(flag, parts, lazies, consts):
            return None
        parts.append(None if type(flag) is tuple else flag)
        if not all(self._describe(a, parts, lazies, consts) for a in args):
            return None
        for name, a in kwargs.items() if kwargs else ():
            parts.append(name)
            if not self._describe(a, parts, lazies, consts):
                return None
        return tuple(parts)

    def call(self, key: Any, flag: Any, args: tuple[Any, ...], method: bool = False, kwargs: Any = None) -> Any:
        """The results of a call seen before, or NotImplemented."""
        owner = None
        if method:
            owner, args = args[0], args[1:]
            flag = getattr(owner, "training", None)
        lazies: list[Any] = []
        parts = self._parts(key, flag, owner, args, kwargs, lazies)
        found = None if parts is None else self._seen.get(parts)
        if found is None:
            return NotImplemented
        what = found[0]
        if type(what) is Entry:
            return self.record(what, lazies)
        return self._lazy(what.slot, what.meta, self.lane, None)  # a constant: each example gets a handle of its own

    def remember(self, key: Any, flag: Any, owner: Any, args: Any, kwargs: Any, values: Any, found: Any) -> None:
        """The next such call is found by `call`, if it can be described and depends on these values and no others."""
        lazies: list[Any] = []
        parts = self._parts(key, flag, owner, args, kwargs, lazies)
        if len(self._seen) < 16384 and parts is not None and [x.slot for x in lazies] == [x.slot for x in values]:
            self._seen[parts] = (found, args, kwargs)  # an id means something while its object lives

    def forget(self) -> None:
        """No call counts as seen."""
        self._seen.clear()

    def resume(self, waiting: list[Any], answers: list[Any]) -> None:
        """These examples have their answers."""
        self._turns = iter(zip(waiting, answers))

    def turn(self) -> Any:
        """The next of them as (greenlet, answer), or None."""
        for (lane, g, _), answer in self._turns:
            self.lane, self.current = lane, g
            return g, answer
        return None

    def all_rows(self, x: Any) -> Any:
        if not self._usable(x) or not x.meta.lead or x.meta.row is None or (x.meta.tracks and not self._grad()):
            return NotImplemented
        root = x if x.extra is None or x.extra is self._input else x.extra
        return tuple([self._lazy(x.slot + i, x.meta.row, self.lane, root) for i in range(x.meta.rows)])

    def one_row(self, x: Any, i: Any) -> Any:
        if (
            type(i) is not int
            or not self._usable(x)
            or not x.meta.lead
            or x.meta.row is None
            or (x.meta.tracks and not self._grad())
        ):
            return NotImplemented
        if i < 0:
            i += x.meta.rows
        if not 0 <= i < x.meta.rows:
            return NotImplemented
        return self._lazy(
            x.slot + i, x.meta.row, self.lane, x if x.extra is None or x.extra is self._input else x.extra
        )

    def parts(self, xs: Sequence[Any]) -> Any:
        flat: list[int] = []
        for x in xs:
            if not self._usable(x) or x.meta is not xs[0].meta:
                return NotImplemented
            flat += (x.slot, x.meta.rows)
        return tuple(flat)

    def join(self, xs: Any, lead: int) -> Any:
        if type(xs) not in (list, tuple) or not xs:
            return NotImplemented
        flat = self.parts(xs)
        if flat is NotImplemented or xs[0].meta.lead != lead or type(xs[0].extra) is self._lazy:
            return NotImplemented
        total = xs[0].meta.rows * len(xs)
        entry = self.entries.get((xs[0].meta, total, self._grad()))
        if entry is None:
            return NotImplemented
        return self._lazy(self.put(entry.sig, total, flat, total), entry.metas[0], self.lane, None)

    def asked(self, waiting: list[Any]) -> Any:
        first = waiting[0][2][1].meta if waiting else None
        if not first or first.rows != 1 or first.lead:
            return None
        for _, _, (kind, x, _) in waiting:
            if kind != "read" or x.meta is not first or self.row_of(x.slot) < 0:
                return None
        rows = array("q", [self.row_of(x.slot) for _, _, (_, x, _) in waiting])
        return bytearray(rows.tobytes()), first, Counter(place for _, _, (_, _, place) in waiting)

    def has_tensor(self, x: Any) -> bool:
        t = type(x)
        if t is int or t is str or t is float or x is None:
            return False
        if isinstance(x, tuple) or t is list:
            return any(self.has_tensor(v) for v in x)
        if t is dict:
            return any(self.has_tensor(v) for v in x.values())
        return isinstance(x, self._tensor)
