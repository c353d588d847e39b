"""Which waiting nodes run together, and in which order."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plait.batching._signature import Sig

Node = tuple[Sig, int, int, Any]


def needed(nodes: Sequence[Node | None], owner: Sequence[int], slots: Iterable[int]) -> list[int]:
    """The waiting nodes that these slots depend on, oldest first."""
    want: set[int] = set()
    todo = [owner[s] for s in slots]
    while todo:
        i = todo.pop()
        if i < 0 or i in want:
            continue
        node = nodes[i]
        if node is None:
            continue
        want.add(i)
        if node[0].kind == "gather":
            todo += [owner[s] for s, k in node[3] if k]
        else:
            todo += [owner[s] for s in node[3]]
    return sorted(want)


def plan(nodes: Sequence[Node | None], owner: Sequence[int], ids: Sequence[int]) -> list[tuple[Sig, list[Node]]]:
    """The nodes `ids` in groups, in an order that respects every dependency.

    Signatures that feed one another in a circle (a loop, a recursion) run wave by wave; everything else waits until
    all of its inputs are there and runs once.
    """
    own: list[Node] = [nodes[i] for i in ids]  # type: ignore[misc]
    at = {i: k for k, i in enumerate(ids)}
    feeds: list[list[int]] = []
    for node in own:
        sig, ins = node[0], node[3]
        slots = [s for s, k in ins if k] if sig.kind == "gather" else ins
        found = []
        for s in slots:
            p = at.get(owner[s])
            if p is not None:
                found.append(p)
                sig.preds.add(own[p][0])
        feeds.append(found)
    _components({n[0] for n in own})
    level = [0] * len(own)
    buckets: dict[tuple[int, int, int], list[Node]] = {}
    for k, node in enumerate(own):
        lv = 0
        sig = node[0]
        for p in feeds[k]:
            if level[p] >= lv and own[p][0].scc == sig.scc:
                lv = level[p] + 1
        level[k] = lv
        buckets.setdefault((sig.scc, lv, sig.index), []).append(node)
    return [(group[0][0], group) for _, group in sorted(buckets.items(), key=lambda b: b[0])]


def _components(sigs: set[Sig]) -> None:
    """Numbers the strongly connected components so that each comes after those it depends on (Tarjan, no recursion)."""
    order: dict[Sig, int] = {}
    low: dict[Sig, int] = {}
    stack: list[Sig] = []
    on: set[Sig] = set()
    count = 0
    for start in sorted(sigs, key=lambda s: s.index):
        if start in order:
            continue
        work = [(start, iter(sorted(start.preds & sigs, key=lambda s: s.index)))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on.add(start)
        while work:
            s, it = work[-1]
            for p in it:
                if p not in order:
                    order[p] = low[p] = len(order)
                    stack.append(p)
                    on.add(p)
                    work.append((p, iter(sorted(p.preds & sigs, key=lambda q: q.index))))
                    break
                if p in on:
                    low[s] = min(low[s], order[p])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[s])
                if low[s] == order[s]:
                    while True:
                        q = stack.pop()
                        on.discard(q)
                        q.scc = count
                        if q is s:
                            break
                    count += 1
