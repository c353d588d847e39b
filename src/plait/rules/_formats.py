"""Findings as text, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plait.graph._notation import plural
from plait.rules._catalogue import rules
from plait.rules._findings import severity
from plait.rules._rule import CATEGORIES, Finding
from plait.rules._words import path_of

SCHEMA = "plait.findings/1"


def text(findings: Sequence[Finding]) -> str:
    """What a person reads."""
    remarks = "".join(f"\n\n{each}" for each in getattr(findings, "remarks", ()))
    if not findings:
        return f"nothing found{remarks}"
    parts = []
    for category in CATEGORIES:
        own = [each for each in findings if each.category == category]
        if own:
            parts.append(f"{category}\n\n" + "\n\n".join(str(each) for each in own))
    return "\n\n".join(parts) + f"\n\n{plural(len(findings), 'finding')}{remarks}"


def as_json(findings: Sequence[Finding]) -> str:
    """One versioned document."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "remarks": list(getattr(findings, "remarks", ())),
            "findings": [
                {
                    "rule": each.rule, "category": each.category, "fact": each.fact, "consequence": each.consequence,
                    "cure": each.cure, "graph": each.graph, "nodes": list(each.nodes), "steps": list(each.steps),
                    "count": each.count, "facts": dict(each.facts),
                    "places": [
                        {"role": p.role, "file": path_of(p.file), "line": p.line, "expression": p.expression}
                        for p in each.places
                    ],
                }
                for each in findings
            ],
        },
        indent=1,
    )  # fmt: skip


def github(findings: Sequence[Finding]) -> str:
    """Workflow commands that GitHub shows as annotations."""
    word = {"error": "error", "warning": "warning", "note": "notice"}
    lines = []
    for each in findings:
        where = f" file={_property(path_of(each.file))},line={each.line}," if each.file else " "
        message = _escaped(f"{each.fact}\n{each.consequence}\n{each.cure}")
        lines.append(f"::{word[severity(each)]}{where}title={_property(each.rule)}::{message}")
    return "\n".join(lines)


def sarif(findings: Sequence[Finding]) -> str:
    """A SARIF 2.1.0 log, for code scanners."""
    from plait import __version__

    known = {each.name: each for each in rules()}
    used = sorted({each.rule for each in findings})
    described = [
        {
            "id": name,
            "shortDescription": {"text": known[name].title if name in known else name},
            "fullDescription": {"text": known[name].page.strip() if name in known else name},
        }
        for name in used
    ]
    results = [
        {
            "ruleId": each.rule, "ruleIndex": used.index(each.rule), "level": severity(each),
            "message": {"text": f"{each.fact} {each.consequence} {each.cure}"},
            "locations": [_location(p.file, p.line) for p in each.places[:1]],
            "relatedLocations": [
                {**_location(p.file, p.line), "message": {"text": p.role}} for p in each.places[1:]
            ],
        }
        for each in findings
    ]  # fmt: skip
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "plait", "version": __version__, "rules": described}},
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=1)


def _location(file: str, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": Path(path_of(file)).as_posix()},
            "region": {"startLine": line},
        }
    }


def _escaped(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(message: str) -> str:
    return _escaped(message).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Sequence[Finding]], str]] = {
    "text": text, "json": as_json, "github": github, "sarif": sarif,
}  # fmt: skip
