"""Which rows of one place belong to one execution of it, and where the next execution begins.

One expression may run several operations (`lstm(x)`: two zeros and the lstm), and a loop may consist of one
expression. Seen as rows both are the same place many times. The order of the operations tells them apart: the
executions repeat it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

Move = tuple[int | None, Hashable | None, int]
"""(site, what happens there, change of depth): 1 for a function that begins there, -n for n that end. Without a site or
without anything happening a row does not count."""


class _Run:
    """What happened at one place of one frame, one thing after the other."""

    __slots__ = ("keys", "places", "site")

    def __init__(self) -> None:
        self.site: int | None = None
        self.places: list[int] = []
        self.keys: list[Hashable] = []


def executions(moves: Iterable[Move]) -> dict[int, bool | None]:
    """For the places of rows that follow another row at the same site of the same frame: True if both are one execution
    of it, False if a new one begins, None if that cannot be told.

    >>> lstm_in_a_loop = [(7, "zeros", 0), (7, "zeros", 0), (7, "lstm", 0)] * 2
    >>> executions(lstm_in_a_loop)
    {1: True, 2: True, 3: False, 4: True, 5: True}
    >>> executions([(7, "add", 0)] * 3)
    {1: False, 2: False}
    """
    found: dict[int, bool | None] = {}
    frames = [_Run()]
    for place, (site, key, depth) in enumerate(moves):
        if depth < 0:
            for _ in range(min(-depth, len(frames) - 1)):
                _decide(frames.pop(), found)
        elif site is not None and key is not None:
            run = frames[-1]
            if run.site == site:
                run.places.append(place)
                run.keys.append(key)
            else:
                if len(run.keys) > 1:
                    _decide(run, found)
                run.site, run.places, run.keys = site, [place], [key]
        if depth > 0:
            frames.append(_Run())
    while frames:
        _decide(frames.pop(), found)
    return found


def _decide(run: _Run, found: dict[int, bool | None]) -> None:
    count = len(run.keys)
    if count < 2:
        return
    period = _period(run.keys)
    alone = period == count and len(set(run.keys)) < count  # neither a repetition nor all different
    for index, place in enumerate(run.places[1:], start=1):
        found[place] = None if alone else index % period != 0


def _period(keys: list[Hashable]) -> int:
    """The length of the shortest part whose repetition is all of it (Knuth, Morris and Pratt's failure function)."""
    failure = [0] * len(keys)
    for index in range(1, len(keys)):
        length = failure[index - 1]
        while length and keys[index] != keys[length]:
            length = failure[length - 1]
        failure[index] = length + (keys[index] == keys[length])
    period = len(keys) - failure[-1]
    return period if len(keys) % period == 0 else len(keys)
