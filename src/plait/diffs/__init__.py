"""Compares two graphs, two steps, two runs or the ranks of one job: first where they part, then what differs."""

from plait.diffs._contrast import are_ranks, contrast
from plait.diffs._diff import Change, Diff, diff
from plait.diffs._divergence import Divergence
from plait.diffs._ranks import RankDiff, diff_ranks
from plait.diffs._sides import Comparable, Side, side

__all__ = [
    "Change",
    "Comparable",
    "Diff",
    "Divergence",
    "RankDiff",
    "Side",
    "are_ranks",
    "contrast",
    "diff",
    "diff_ranks",
    "side",
]
