"""The plan of a flush in Python: which waiting nodes run, in which groups, on which rows."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False, repr=False)
class Kind:
    """A signature as the plan sees it."""

    gather: int
    ragged: int
    in_rows: tuple[int, ...]
    out_rows: tuple[int, ...]
    out_spaces: tuple[int, ...]
    scc: int
    preds: set[int] = field(default_factory=set)


Node = list[Any]  # sig, length, first output slot, input slots, lane
FAR = 1 << 62


class Planner:
    """Waiting nodes by number, slots by number, and the plan of a flush."""

    def __init__(self, components: Callable[[list[tuple[int, ...]]], list[int]]) -> None:
        self.next = 0
        self._components = components
        self._owner: list[int] = []
        self._row_of: list[int] = []
        self._nodes: list[Node | None] = []
        self._sigs: list[Kind] = []
        self._used: list[int] = []
        self._dirty = False
        self._past: dict[int, Any] = {}  # nodes that have run

    # ------------------------------------------------------------------ signatures, slots, rows
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
        self._sigs.append(Kind(gather, ragged, in_rows, out_rows, out_spaces, len(self._sigs)))
        self._dirty = True
        return len(self._sigs) - 1

    def _slots(self, rows: int, owner: int) -> int:
        base = self.next
        rows = rows or 1
        self._owner.extend([owner] * rows)
        self._row_of.extend([-1] * rows)
        self.next = base + rows
        return base

    def take(self, rows: int) -> int:
        return self._slots(rows, -1)

    def _space(self, s: int) -> None:
        while s >= len(self._used):
            self._used.append(0)

    def room(self, space: int, rows: int) -> int:
        self._space(space)
        at = self._used[space]
        self._used[space] += rows
        return at

    def used(self) -> list[int]:
        """Rows in use, for each space."""
        return self._used

    def place(self, slot: int, row: int, count: int) -> None:
        self._row_of[slot : slot + count] = range(row, row + count)

    def row_of(self, slot: int) -> int:
        return self._row_of[slot] if slot < self.next else -1

    def shared(self) -> tuple[int, int, int]:
        """Calls, kinds of calls, and for each kind the examples that made one, added up."""
        made = [self._past[i] if node is None else node for i, node in enumerate(self._nodes)]
        return len(made), len({n[0] for n in made}), len({(n[0], n[4]) for n in made})

    # ------------------------------------------------------------------ the plan
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

    def plan(self, slots: Sequence[int]) -> tuple[list[Any], bytearray, list[int]]:
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
        sizes: list[int] = []
        groups = [
            (*self._lay_out([own[k] for k in group], index, sizes), array("i", [ids[k] for k in group]).tobytes())
            for group in order
        ]
        for i in ids:
            self._past[i] = self._nodes[i]
            self._nodes[i] = None
        return groups, bytearray(index.tobytes()), sizes

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
        group_of = {k: g for g, group in enumerate(order) for k in group}

        def place(k: int) -> tuple[Any, ...]:
            """Nobody uses it yet: those that read from one group stand together."""
            read = next((group_of[p] for p in feeds[k] if p >= 0), 0) if want[k][0] == FAR else 0
            return want[k], read, k

        for g in range(len(order) - 1, -1, -1):
            order[g].sort(key=place)
            for pos, k in enumerate(order[g]):
                gather = self._sigs[own[k][0]].gather
                for j, p in enumerate(feeds[k]):
                    if p >= 0:
                        want[p] = min(want[p], (g, pos, j) if gather else (g, j, pos))

    def _lay_out(self, nodes: list[Node], index: array[int], sizes: list[int]) -> Any:
        sig = self._sigs[nodes[0][0]]
        row_of = self._row_of
        lengths = [node[1] for node in nodes] if sig.ragged or sig.gather else None
        cols: list[tuple[int, int, int | None, int]] = []
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
            end = max(rows) + 1 if rows else 0
            if not rows or rows == list(range(rows[0], rows[0] + len(rows))):
                cols.append((rows[0] if rows else 0, len(rows), None, end))
            else:
                cols.append((0, len(rows), len(sizes), end))
                index.extend(rows)
                sizes.append(len(rows))
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
