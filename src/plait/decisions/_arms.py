"""Which way a test went, where only a part of it was read from a tensor: `y.item() > 1.5`, `ready and x.any()`.

First the test is worked out from the value that was read, everything else unknown. Where that is not enough, what
ran next tells: it stands in one arm or the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from plait.decisions._survey import Survey
from plait.graph._rows import EnterRow, OpRow, ReadRow
from plait.graph._site import Site

_UNKNOWN = object()


class Verdict:
    """Works out a test of the source from one value in it.

    >>> verdict = Verdict("ready and not y.item() < 2", "y.item()")
    >>> verdict(1.0), verdict(3.0)
    (False, None)
    >>> Verdict("0 < y.item()", "y.item()")(3.0)
    True
    """

    def __init__(self, test: str, read: str) -> None:
        self.constant: float | None = None  # what the value is compared with, if that is a number of the source
        self._tree: ast.expr | None = None
        try:
            tree = ast.parse(test.strip(), mode="eval").body
            text = ast.unparse(ast.parse(read.strip(), mode="eval"))
        except (SyntaxError, ValueError, RecursionError):
            return
        places = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and ast.unparse(node) == text]
        if len(places) != 1:  # not there, or twice: which of them was read?
            return
        self._tree, self._read = tree, places[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                    value = self._value(other, _UNKNOWN)
                    if side is self._read and isinstance(value, (int, float)):
                        self.constant = float(value)

    def __call__(self, value: Any) -> bool | None:
        """The truth of the test if the read gave `value`; None where that depends on more."""
        if self._tree is None:
            return None
        result = self._value(self._tree, value)
        return None if result is _UNKNOWN else bool(result)

    def _value(self, node: ast.expr, value: Any) -> Any:
        if node is self._read:
            return value
        match node:
            case ast.Constant():
                return node.value
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                inner = self._value(node.operand, value)
                if inner is _UNKNOWN or (isinstance(node.op, ast.USub) and not isinstance(inner, (int, float))):
                    return _UNKNOWN
                return not inner if isinstance(node.op, ast.Not) else -inner
            case ast.BoolOp():
                parts = [self._value(each, value) for each in node.values]
                deciding = isinstance(node.op, ast.Or)  # one True decides an `or`, one False an `and`
                if any(part is not _UNKNOWN and bool(part) is deciding for part in parts):
                    return deciding
                return _UNKNOWN if any(part is _UNKNOWN for part in parts) else not deciding
            case ast.Compare() if len(node.ops) == 1:
                return _compare(node.ops[0], self._value(node.left, value), self._value(node.comparators[0], value))
            case _:
                return _UNKNOWN


def _compare(operator: ast.cmpop, left: Any, right: Any) -> Any:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return _UNKNOWN
    match operator:
        case ast.Gt():
            return left > right
        case ast.GtE():
            return left >= right
        case ast.Lt():
            return left < right
        case ast.LtE():
            return left <= right
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
        case _:
            return _UNKNOWN


def verdict_of(site: Site | None) -> Verdict | None:
    """How to work out the test around a site that reads a part of it; None where there is no such test."""
    if site is None or site.test is None or site.test.role != "part":
        return None
    return _verdict(site.test.expression, site.expression)


_verdict = lru_cache(maxsize=4096)(Verdict)


def arms_seen(survey: Survey, same: dict[int | None, int]) -> dict[int, dict[bool, int]]:
    """By place, for reads that are a part of their test: how often what ran next stood in which arm of it."""
    found: dict[int, dict[bool, int]] = {}
    for graph in survey.tokens:
        steps = survey.by_graph[graph].steps
        for number, outcome in _arms_of(survey, graph):
            counts = found.setdefault(same[number], {})
            counts[outcome] = counts.get(outcome, 0) + steps
    return found


def _arms_of(survey: Survey, graph: int) -> Iterator[tuple[int, bool]]:
    waiting: dict[tuple[str, int, int], list[int]] = {}  # (file and place of a test) -> the sites that were read
    for _, row in survey.items(graph):
        if not isinstance(row, (OpRow, ReadRow, EnterRow)) or row.site is None:
            continue
        site = survey.sites[row.site]
        if waiting:
            for branch in site.branches:
                for read in waiting.pop((site.file, branch.line, branch.column), ()):
                    yield read, branch.arm
        if isinstance(row, ReadRow) and site.test is not None and site.test.role == "part":
            test = (site.file, site.test.line, site.test.column)
            if row.site in waiting.get(test, ()):  # the test began anew and nothing had run in its arm
                del waiting[test]
            waiting.setdefault(test, []).append(row.site)
