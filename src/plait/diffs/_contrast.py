"""A comparison of recordings as the views draw it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from plait._errors import PlaitError
from plait.diffs._diff import _VERDICTS, Diff, diff
from plait.diffs._divergence import Divergence, Half, _decided, _ran, _rounds, lines
from plait.diffs._ranks import RankDiff, diff_ranks
from plait.graph._marks import Contrast, ContrastSide
from plait.graph._notation import plural
from plait.graph._site import Site
from plait.recording import Recording

_RANK = re.compile(r"\.rank\d+\.plait$")


def are_ranks(names: Sequence[str]) -> bool:
    """Whether files are the ranks of one job, by their names."""
    return all(_RANK.search(each) for each in names)


def contrast(recordings: Sequence[Recording]) -> Contrast:
    """Two recordings, or the ranks of one job, compared for drawing.

    Raises:
        PlaitError: there are more than two and they are no ranks, or fewer than two.
    """
    if are_ranks([each.path or "" for each in recordings]):
        return _of_ranks(diff_ranks(recordings), recordings)
    if len(recordings) != 2:
        raise PlaitError("more than two recordings can be compared only as the ranks of one job (NAME.rank0.plait ...)")
    return _of_two(diff(*recordings), recordings)


def _of_two(found: Diff, recordings: Sequence[Recording]) -> Contrast:
    text = [_VERDICTS[found.verdict].replace("a and b", f"a ({found.a}) and b ({found.b})")]
    text += [found.note] if found.note else []
    parted = found.divergence
    sides: list[ContrastSide] = []
    if parted is not None:
        steps = found.steps or (parted.step, parted.step)
        text.append(f"They part in step {parted.step} after {plural(parted.position, 'thing')} that both did.")
        text.append(lines(parted)[0])
        text += [parted.cause] if parted.cause else []
        halves = zip(("a", "b"), (parted.a, parted.b), steps, recordings)
        sides = [_side(f"{name}: {each.path or name}", half, parted, step, each) for name, half, step, each in halves]
    lists = (("only in a", found.only_a), ("only in b", found.only_b), ("changed", tuple(map(str, found.changed))))
    return Contrast(tuple(text), tuple(sides), tuple((title, each) for title, each in lists if each))


def _of_ranks(found: RankDiff, recordings: Sequence[Recording]) -> Contrast:
    first = [each for each in str(found).splitlines() if not each.startswith("  rank ") or "no gradient" in each]
    sides: list[ContrastSide] = []
    if found.divergence is not None:
        for rank, each in zip(found.ranks, sorted(recordings, key=_number)):
            sides.append(_side(rank.label, rank.half, found.divergence, found.step, each))
    return Contrast(tuple(each.strip() for each in first), tuple(sides))


def _side(label: str, half: Half | None, parted: Divergence, step: int | None, recording: Recording) -> ContrastSide:
    if half is None:
        return ContrastSide(label, "ends before this", step)
    site = half.site
    words = {"decision": _decided(half, parted.comparison), "trips": _rounds(half)}.get(parted.kind, _ran(half))
    if site is not None and parted.kind == "trips":
        site = _whole_line(site)
    return ContrastSide(label, words, step, site, None if site is None else recording.sources.get(site.file))


def _whole_line(site: Site) -> Site:
    """The line of a loop's header, without the columns of what ran in it."""
    return replace(site, end_line=site.line, column=None, end_column=None)


def _number(recording: Recording) -> tuple[int, str]:
    found = re.search(r"rank(\d+)", recording.path or "")
    return (int(found.group(1)) if found else 0), recording.path or ""
