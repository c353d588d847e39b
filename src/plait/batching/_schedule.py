"""The order of signatures: what feeds what."""

from __future__ import annotations

from collections.abc import Sequence


def components(preds: Sequence[Sequence[int]]) -> list[int]:
    """For each signature the number of its strongly connected component; a component comes after those it needs.

    Tarjan's algorithm with a stack of its own.

    >>> components([(), (0, 1), (1,)])
    [0, 1, 2]
    """
    n = len(preds)
    order = [-1] * n
    low = [0] * n
    on = [False] * n
    stack: list[int] = []
    res = [0] * n
    count = seen = 0
    for start in range(n):
        if order[start] >= 0:
            continue
        order[start] = low[start] = seen
        seen += 1
        stack.append(start)
        on[start] = True
        work = [(start, iter(sorted(preds[start])))]
        while work:
            s, it = work[-1]
            for p in it:
                if order[p] < 0:
                    order[p] = low[p] = seen
                    seen += 1
                    stack.append(p)
                    on[p] = True
                    work.append((p, iter(sorted(preds[p]))))
                    break
                if on[p]:
                    low[s] = min(low[s], order[p])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[s])
                if low[s] == order[s]:
                    while True:
                        q = stack.pop()
                        on[q] = False
                        res[q] = count
                        if q == s:
                            break
                    count += 1
    return res
