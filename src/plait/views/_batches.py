"""What batched runs did, in words: the summary that `plait run` and `plait show` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TypeVar

from plait.graph import Site
from plait.graph._notation import duration, plural
from plait.recording import Batch, Recording, batches
from plait.views._theme import Paint

K = TypeVar("K")
MOST = 3  # places and names of each kind


def batch_summary(recording: Recording, paint: Paint) -> str:
    """For every place that calls a function of `plait.batch`: what its calls became; '' if there is none.

    Calls that became groups and their mean width, where examples asked for values, what ran alone and why, and one
    line on what would help.
    """
    by_site: dict[int | None, list[Batch]] = {}
    for each in batches(recording):
        by_site.setdefault(None if each.site is None else each.site.id, []).append(each)
    return "\n".join(line for runs in by_site.values() for line in _lines(runs, paint))


def _lines(runs: Sequence[Batch], paint: Paint) -> list[str]:
    first = runs[0]
    looped = [each for each in runs if each.loop]
    lanes = [each for each in runs if not each.loop]
    examples = sum(each.examples for each in runs)
    text = first.site.expression if first.site is not None else ""
    lines = [
        f"{paint('bold', where(first.site))}  {text}: {plural(len(runs), 'run')}, {plural(examples, 'example')},"
        f" {duration(sum(each.ns for each in runs))}"
    ]
    if lanes:
        calls, groups = sum(each.calls for each in lanes), sum(each.groups for each in lanes)
        width = f" (mean width {calls / groups:.1f})" if groups else ""
        flushes = sum(each.flushes for each in lanes)
        lines.append(
            f"  {plural(calls, 'call')} became {plural(groups, 'group')}{width}, {plural(flushes, 'flush', 'flushes')}"
        )
    for site, times in _total(pair for each in lanes for pair in each.reads):
        asked = f" for {site.expression}" if site is not None and site.expression else ""
        lines.append(f"  waited for a value {plural(times, 'time')} at {where(site)}{asked}")
    for (name, why), times in _total(((name, why), times) for each in lanes for name, why, times in each.alone):
        lines.append(f"  {name} ran alone, {plural(times, 'time')}: {why}")
    for loop, times in Counter(each.loop for each in looped).most_common(MOST):
        lines.append(f"  {plural(times, 'run')} as a plain loop: {loop}")
    hints = Counter(each.hint for each in lanes if each.hint)
    if hints:
        lines.append(f"  {paint('finding', 'would help:')} {hints.most_common(1)[0][0]}")
    return lines


def _total(pairs: Iterable[tuple[K, int]]) -> list[tuple[K, int]]:
    """The keys with the greatest sums."""
    counts: Counter[K] = Counter()
    for key, times in pairs:
        counts[key] += times
    return counts.most_common(MOST)


def where(site: Site | None) -> str:
    """`file.py:12`."""
    return "a place outside of the program" if site is None else f"{PurePath(site.file).name}:{site.line}"
