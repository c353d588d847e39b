"""The recording core in Python: the reference for `_core.c`, and what runs where no compiler was there."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import Any


class MetaBase:
    __slots__ = ("lead", "number", "row", "rows", "tracks", "truth")
    lead: int
    rows: int
    row: Any
    tracks: bool
    number: int  # one number: 1 float32, 2 float64, 3 whole; else 0
    truth: Any  # meta of a comparison of the value with a number


class LazyBase:
    __slots__ = ("extra", "lane", "meta", "slot")

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


class ModuleCall:
    """What stands as `__call__` in the classes of torch.nn while lanes run; `slow` is called with the module first."""

    def __init__(self, slow: Callable[..., Any]) -> None:
        self.slow = slow

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.slow(*args, **kwargs)

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else MethodType(self, obj)


def use(core: Any) -> None:
    """Whose lanes run in this thread: the compiled core takes its short cuts only then. There are none here."""


_slow: list[Callable[..., Any]] = []


def install(names: Any, slow: Callable[..., Any], ours: Any, site: Any) -> None:
    """The long ways that the short cuts fall back on."""
    _slow[:] = [slow]


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


@dataclass(slots=True, eq=False, repr=False)
class _Kind:
    gather: int
    ragged: int
    in_rows: tuple[int, ...]
    out_rows: tuple[int, ...]
    out_spaces: tuple[int, ...]
    scc: int
    preds: set[int] = field(default_factory=set)


Node = list[Any]  # sig, length, first output slot, input slots, lane
FAR = 1 << 62


class Core:
    """Waiting nodes by number, slots by number, and the plan of a flush."""

    def __init__(
        self,
        lazy: type,
        given: Any,
        grad_enabled: Callable[[], bool],
        autocast: Callable[[], bool],
        components: Callable[[list[tuple[int, ...]]], list[int]],
        tensor: type,
        parameter: type,
    ) -> None:
        self._tensor = tensor
        self._parameter = parameter
        self.entries: dict[Any, Entry] = {}
        self.lane = -1
        self.on_node: Callable[[], object] | None = None  # called before each new node
        self.pause: Any = None  # these six are for the compiled core's short cuts
        self.waiting: Any = None
        self.getcurrent: Any = None
        self.current: Any = None
        self.hub: Any = None
        self.checks: Any = None
        self.plain = False
        self.next = 0
        self._lazy = lazy
        self._input = given
        self._grad = grad_enabled
        self._autocast = autocast
        self._components = components
        self._owner: list[int] = []
        self._row_of: list[int] = []
        self._nodes: list[Node | None] = []
        self._sigs: list[_Kind] = []
        self._used: list[int] = []
        self._dirty = False
        self._past: dict[int, Any] = {}  # nodes that have run

    # ------------------------------------------------------------------ recording
    def take(self, rows: int) -> int:
        return self._slots(rows, -1)

    def _slots(self, rows: int, owner: int) -> int:
        base = self.next
        rows = rows or 1
        self._owner.extend([owner] * rows)
        self._row_of.extend([-1] * rows)
        self.next = base + rows
        return base

    def put(self, sig: int, length: int, ins: tuple[int, ...], rows: int) -> int:
        if self.on_node is not None:
            self.on_node()
        base = self._slots(rows, len(self._nodes))
        self._nodes.append([sig, length, base, ins, self.lane])
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

    def call(self, key: Any, flag: Any, args: tuple[Any, ...], method: bool = False) -> Any:
        parts: list[Any] = [key, flag, self._grad(), self._autocast()]
        if parts[3]:
            return NotImplemented  # under autocast the dtype matters too: not for the quick path
        lazies: list[Any] = []
        rest = args
        if method:
            parts[1] = getattr(args[0], "training", None)
            parts.append(id(args[0]))
            rest = args[1:]
        for a in rest:
            if self._usable(a):
                parts.append(a.meta)
                lazies.append(a)
            elif type(a) is self._parameter or type(a) is self._tensor:
                parts += (self._tensor, id(a))
            elif a is None:
                parts += (None, None)
            elif type(a) is float and a != 0.0 and a == a:
                parts += (float, a)
            elif type(a) is int or type(a) is bool:
                parts += (type(a), a)
            elif (type(a) is tuple or type(a) is list) and len(a) < 8 and all(self._usable(b) for b in a):
                parts.append(type(a))
                parts.extend([b.meta for b in a])
                parts.append(None)
                lazies.extend(a)
            else:
                return NotImplemented
        if len(parts) > 24:
            return NotImplemented
        entry = self.entries.get(tuple(parts))
        return NotImplemented if entry is None else self.record(entry, lazies)

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
        return bytearray(rows.tobytes()), first, [place for _, _, (_, _, place) in waiting]

    def has_tensor(self, x: Any) -> bool:
        t = type(x)
        if t is int or t is str or t is float or x is None:
            return False
        if isinstance(x, tuple) or t is list:
            return any(self.has_tensor(v) for v in x)
        if t is dict:
            return any(self.has_tensor(v) for v in x.values())
        return isinstance(x, self._tensor)

    # ------------------------------------------------------------------ signatures, rows
    def sig(
        self,
        gather: int,
        ragged: int,
        in_rows: tuple[int, ...],
        out_rows: tuple[int, ...],
        out_spaces: tuple[int, ...],
    ) -> int:
        for s in out_spaces:
            self._space(s)
        self._sigs.append(_Kind(gather, ragged, in_rows, out_rows, out_spaces, len(self._sigs)))
        self._dirty = True
        return len(self._sigs) - 1

    def _space(self, s: int) -> None:
        while s >= len(self._used):
            self._used.append(0)

    def room(self, space: int, rows: int) -> int:
        self._space(space)
        at = self._used[space]
        self._used[space] += rows
        return at

    def used(self, space: int) -> int:
        return self._used[space] if space < len(self._used) else 0

    def place(self, slot: int, row: int, count: int) -> None:
        self._row_of[slot : slot + count] = range(row, row + count)

    def row_of(self, slot: int) -> int:
        return self._row_of[slot] if slot < self.next else -1

    # ------------------------------------------------------------------ the plan of a flush
    def _feeds(self, node: Node) -> list[int]:
        """The nodes that a node's inputs come from (or -1)."""
        owner = self._owner
        if self._sigs[node[0]].gather:
            flat = node[3]
            return [owner[flat[j]] for j in range(0, len(flat), 2) if flat[j + 1]]
        return [owner[s] for s in node[3]]

    def _needed(self, slots: Sequence[int]) -> list[int]:
        nodes = self._nodes
        want: set[int] = set()
        todo = [self._owner[s] for s in slots if s < self.next]
        while todo:
            i = todo.pop()
            if i < 0 or i in want:
                continue
            node = nodes[i]
            if node is None:
                continue
            want.add(i)
            todo += self._feeds(node)
        return sorted(want)

    def plan(self, slots: Sequence[int]) -> tuple[list[Any], bytearray]:
        """Groups of nodes that the slots need, in an order that respects every dependency.

        Signatures that feed one another in a circle (a loop, a recursion) run wave by wave; everything else waits
        until all of its inputs are there and runs once.  Within a group, rows lie in the order in which they are used.
        """
        ids = self._needed(slots)
        own: list[Node] = [self._nodes[i] for i in ids]  # type: ignore[misc]
        at = {i: k for k, i in enumerate(ids)}
        feeds = [[at.get(p, -1) for p in self._feeds(node)] for node in own]
        for node, ps in zip(own, feeds):
            preds = self._sigs[node[0]].preds
            for p in ps:
                if p >= 0 and own[p][0] not in preds:
                    preds.add(own[p][0])
                    self._dirty = True
        if self._dirty:
            for s, n in zip(self._sigs, self._components([tuple(s.preds) for s in self._sigs])):
                s.scc = n
            self._dirty = False
        level = [0] * len(own)
        buckets: dict[tuple[int, int, int], list[int]] = {}
        for k, node in enumerate(own):
            scc = self._sigs[node[0]].scc
            lv = 0
            for p in feeds[k]:
                if 0 <= p < k and self._sigs[own[p][0]].scc == scc and level[p] >= lv:
                    lv = level[p] + 1
            level[k] = lv
            buckets.setdefault((scc, lv, node[0]), []).append(k)
        order = [buckets[b] for b in sorted(buckets)]
        self._by_use(order, own, feeds)
        index = array("q")
        groups = [
            (*self._lay_out([own[k] for k in group], index), array("i", [ids[k] for k in group]).tobytes())
            for group in order
        ]
        for i in ids:
            self._past[i] = self._nodes[i]
            self._nodes[i] = None
        return groups, bytearray(index.tobytes())

    def reach(self, slots: Sequence[int]) -> list[bytearray]:
        """For each space a byte per row: whether a gradient can come from these slots to the value of the row."""
        mark: set[int] = set()
        seen: set[int] = set()
        todo = list(slots)
        while todo:
            s = todo.pop()
            mark.add(s)
            p = self._owner[s]
            if p < 0 or p in seen:
                continue
            seen.add(p)
            node = self._past.get(p) or self._nodes[p]
            flat = node[3]  # type: ignore[index]
            todo += flat[::2] if self._sigs[node[0]].gather else flat  # type: ignore[index]
        res = [bytearray(n) for n in self._used]
        for p in seen & self._past.keys():
            sig_number, length, slot = self._past[p][:3]
            sig = self._sigs[sig_number]
            for r, space in zip(sig.out_rows, sig.out_spaces):
                rows = length if r < 0 else r
                if any(s in mark for s in range(slot, slot + rows)):
                    at = self._row_of[slot]
                    res[space][at : at + rows] = b"\1" * rows
                slot += rows
        return res

    def _by_use(self, order: list[list[int]], own: list[Node], feeds: list[list[int]]) -> None:
        want = [(FAR, 0, 0)] * len(own)
        for g in range(len(order) - 1, -1, -1):
            order[g].sort(key=lambda k: (want[k], k))
            for pos, k in enumerate(order[g]):
                gather = self._sigs[own[k][0]].gather
                for j, p in enumerate(feeds[k]):
                    if p >= 0:
                        want[p] = min(want[p], (g, pos, j) if gather else (g, j, pos))

    def _lay_out(self, nodes: list[Node], index: array[int]) -> Any:
        sig = self._sigs[nodes[0][0]]
        row_of = self._row_of
        lengths = [node[1] for node in nodes] if sig.ragged or sig.gather else None
        cols = []
        for j in range(1 if sig.gather else len(sig.in_rows)):
            rows: list[int] = []
            for node in nodes:
                ins = node[3]
                if sig.gather:
                    for q in range(0, len(ins), 2):
                        rows.extend(range(row_of[ins[q]], row_of[ins[q]] + ins[q + 1]))
                    continue
                n = node[1] if sig.in_rows[j] < 0 else sig.in_rows[j]
                first = row_of[ins[j]]
                rows.extend(range(first, first + n))
            if not rows or rows == list(range(rows[0], rows[0] + len(rows))):
                cols.append((rows[0] if rows else 0, len(rows), None))
            else:
                cols.append((0, len(rows), len(index)))  # type: ignore[arg-type]
                index.extend(rows)
        outs = []
        for o, space in enumerate(sig.out_spaces):
            first = row = self._used[space]
            for node in nodes:
                counts = [node[1] if r < 0 else r for r in sig.out_rows[: o + 1]]
                slot = node[2] + sum(counts[:-1])
                row_of[slot : slot + counts[-1]] = range(row, row + counts[-1])
                row += counts[-1]
            self._used[space] = row
            outs.append((first, row - first))
        lanes = array("i", [node[4] for node in nodes]).tobytes()
        return (nodes[0][0], len(nodes), lengths, tuple(cols), tuple(outs), lanes)
