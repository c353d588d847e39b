"""Lays two lists of items side by side: the common beginning, then which belong together and which stand alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from plait.diffs._items import Item

MOST: Final = 3000  # items that are laid side by side one by one; longer parts are matched by counting
Pair = tuple[Item, Item]


def common_start(a: Sequence[Item], b: Sequence[Item]) -> int:
    """How many items from the beginning are the same: also the outcome of each decision."""
    for index, (one, other) in enumerate(zip(a, b)):
        if one.key != other.key or _outcome(one) != _outcome(other):
            return index
    return min(len(a), len(b))


def align(a: Sequence[Item], b: Sequence[Item]) -> tuple[list[Pair], list[Item], list[Item]]:
    """(items that belong together, items only in a, items only in b)."""
    low = 0
    while low < min(len(a), len(b)) and a[low].key == b[low].key:
        low += 1
    high = 0
    while high < min(len(a), len(b)) - low and a[-1 - high].key == b[-1 - high].key:
        high += 1
    pairs = list(zip(a[:low], b[:low]))
    middle_a, middle_b = a[low : len(a) - high], b[low : len(b) - high]
    inner, only_a, only_b = (
        _in_order(middle_a, middle_b) if len(middle_a) + len(middle_b) <= MOST else _by_count(middle_a, middle_b)
    )
    pairs += inner
    pairs += list(zip(a[len(a) - high :], b[len(b) - high :]))
    moved, only_a, only_b = _by_count(only_a, only_b)  # the same thing at another moment stands alone in neither
    return pairs + moved, only_a, only_b


def _in_order(a: Sequence[Item], b: Sequence[Item]) -> tuple[list[Pair], list[Item], list[Item]]:
    pairs: list[Pair] = []
    only_a: list[Item] = []
    only_b: list[Item] = []
    matcher = SequenceMatcher(None, [each.key for each in a], [each.key for each in b], autojunk=False)
    for tag, start_a, end_a, start_b, end_b in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(a[start_a:end_a], b[start_b:end_b])
            continue
        more, rest_a, rest_b = _by_op(a[start_a:end_a], b[start_b:end_b])
        pairs += more
        only_a += rest_a
        only_b += rest_b
    return pairs, only_a, only_b


def _by_op(a: Sequence[Item], b: Sequence[Item]) -> tuple[list[Pair], list[Item], list[Item]]:
    """In a part that was reworded: the same operation in the same function, in order, was changed, not replaced."""
    waiting: dict[object, deque[Item]] = {}
    for each in b:
        waiting.setdefault(_loosely(each), deque()).append(each)
    pairs, only_a = [], []
    for each in a:
        queue = waiting.get(_loosely(each))
        if queue:
            pairs.append((each, queue.popleft()))
        else:
            only_a.append(each)
    left = {id(each) for queue in waiting.values() for each in queue}
    return pairs, only_a, [each for each in b if id(each) in left]


def _loosely(item: Item) -> object:
    if item.kind != "op" or item.node is None:
        return item.key
    site = item.site
    return item.node.op, None if site is None else (site.function, site.expression)


def _by_count(a: Sequence[Item], b: Sequence[Item]) -> tuple[list[Pair], list[Item], list[Item]]:
    """For long parts: as many of each kind as both have belong together."""
    room = Counter(each.key for each in a) & Counter(each.key for each in b)
    kept_a, only_a = _take(a, Counter(room))
    kept_b, only_b = _take(b, Counter(room))
    by_key: dict[object, deque[Item]] = {}
    for each in kept_b:
        by_key.setdefault(each.key, deque()).append(each)
    return [(each, by_key[each.key].popleft()) for each in kept_a], only_a, only_b


def _take(items: Sequence[Item], room: Counter[object]) -> tuple[list[Item], list[Item]]:
    kept, rest = [], []
    for each in items:
        if room[each.key] > 0:
            room[each.key] -= 1
            kept.append(each)
        else:
            rest.append(each)
    return kept, rest


def _outcome(item: Item) -> bool | None:
    return None if item.decision is None else item.decision.outcome
