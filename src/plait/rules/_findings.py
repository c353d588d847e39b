"""Findings: a list of findings that prints well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from plait.rules._rule import CATEGORIES, Finding

# What is about the run's health first, what is only good to know last.
_ORDER = {category: place for place, category in enumerate(CATEGORIES)}


class Findings(list[Finding]):
    """Findings, the worst first; `str()` is the text that `plait explain` prints.

    >>> print(Findings())
    nothing found
    """

    def __init__(
        self, items: Iterable[Finding] = (), problems: Iterable[str] = (), remarks: Iterable[str] = ()
    ) -> None:
        super().__init__(sorted(items, key=_key))
        self.remarks = tuple(remarks)  # what a reader has to know of the whole, one sentence each
        self.problems = tuple(problems)  # rules that could not be asked, one sentence each

    def of(self, *names: str) -> Findings:
        """Those of these rules or categories."""
        own = (each for each in self if each.rule in names or each.category in names)
        return Findings(own, self.problems, self.remarks)

    def format(self, name: str = "text") -> str:
        """As `text`, `json`, `github` or `sarif`."""
        from plait.rules._formats import FORMATS

        return FORMATS[name](self)

    def __str__(self) -> str:
        from plait.rules._formats import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


Severity = Literal["error", "warning", "note"]


def severity(finding: Finding) -> Severity:
    """How bad it is, in the words of editors and code scanners."""
    if finding.category == "correctness":
        return "error"
    return "warning" if finding.category in ("suspicious", "numerics", "memory") else "note"


def _key(finding: Finding) -> tuple[int, str, int, str]:
    return (_ORDER[finding.category], finding.file or "\uffff", finding.line or 0, finding.rule)
