"""Asks every rule about a recording: once a distinct graph, then once for the whole run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from plait.graph._uncollected import uncollected
from plait.recording import Recording
from plait.rules._case import BUDGET, FEW, Case, Run
from plait.rules._catalogue import Rule, chosen
from plait.rules._findings import Findings
from plait.rules._rule import Finding, Parting

_COMMENT = re.compile(r"#\s*plait:\s*ignore\b(?:\s*\[([^\]]*)\])?")


def explain_recording(
    recording: Recording, select: Iterable[str] = (), ignore: Iterable[str] = (), strict: bool = False,
    budget: int = BUDGET, parting: Parting | None = None,
) -> Findings:  # fmt: skip
    """What the rules say about a recording.

    A rule that fails is left out and named in `Findings.problems`; with `strict` its error is raised. `budget`: how
    many rows of graphs are looked at. `parting`: where this rank and the others part.

    Raises:
        NotFoundError: `select` or `ignore` names no rule and no category.
    """
    wanted = chosen(select, ignore)
    with uncollected():  # hundreds of thousands of small frozen objects and no cycle among them
        return _explained(Run(recording, budget, parting), wanted, strict)


def _explained(run: Run, wanted: Iterable[Rule], strict: bool) -> Findings:
    found: list[Finding] = []
    problems = []
    for rule in wanted:
        run.rule = (rule.name, rule.category)
        try:
            found += _ask(rule, run)
        except Exception as error:
            if strict:
                raise
            problems.append(f"the rule {rule.name} could not be asked ({type(error).__name__}: {error})")
    sources = run.recording.sources if found else {}
    remarks = [] if run.partial is None else [run.partial]
    return Findings((each for each in merged(found) if not _ignored(each, sources)), problems, remarks)


def _ask(rule: Rule, run: Run) -> list[Finding]:
    found = []
    if rule.check is not None:
        for case in run.cases:
            found += [each for each in rule.check(case) if each is not None]
    if rule.check_run is not None:
        found += [each for each in rule.check_run(run) if each is not None]
    return found


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a rule and set of lines, whichever graphs of the run show it."""
    kept: dict[tuple[object, ...], Finding] = {}
    for each in findings:
        key = (each.rule, each.places or (each.graph, each.nodes))
        old = kept.get(key)
        if old is None:
            kept[key] = each
        elif each.graph != old.graph:
            kept[key] = replace(old, steps=tuple(sorted({*old.steps, *each.steps}))[:FEW], count=old.count + each.count)
    return list(kept.values())


def _ignored(finding: Finding, sources: dict[str, str]) -> bool:
    """Whether the program says `# plait: ignore` or `# plait: ignore[rule]` in a line of the finding."""
    for place in finding.places:
        names = _comments(sources.get(place.file, "")).get(place.line)
        if names is not None and (not names or finding.rule in names or finding.category in names):
            return True
    return False


@lru_cache(maxsize=64)
def _comments(source: str) -> dict[int, frozenset[str]]:
    found = {}
    for number, line in enumerate(source.splitlines(), 1):
        match = _COMMENT.search(line)
        if match:
            found[number] = frozenset(each.strip() for each in (match.group(1) or "").split(",") if each.strip())
    return found


__all__ = ["Case", "Run", "explain_recording"]
