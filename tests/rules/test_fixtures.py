"""Every rule finds its bad programs, at their lines, and is silent on its good ones."""

from __future__ import annotations

import gc
import re
import warnings
from pathlib import Path

import pytest
import torch

import plait
from plait.rules import explain_recording, rules

HERE = Path(__file__).parent
FIXTURES = sorted(HERE.glob("*/*.py"))


def run(path: Path) -> plait.Findings:
    """What the whole catalogue says about a program."""
    source = path.read_text()
    state = torch.is_grad_enabled()
    torch.manual_seed(0)
    record = plait.record(values="stats")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with record:
                exec(compile(source, str(path), "exec", dont_inherit=True), {"__name__": "__main__"})
        finally:
            torch.set_grad_enabled(state)
    found = explain_recording(record, strict=True)
    record.close()
    gc.collect()
    return found


def expected(path: Path) -> tuple[str, int | None]:
    """(rule, line) that the header of a program names."""
    match = re.match(r"# ([a-z-]+): (?:expected at line (\d+)|nothing to find)", path.read_text())
    assert match is not None, f"{path}: the first line must say what is expected"
    return match[1], int(match[2]) if match[2] else None


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fixture(path: Path) -> None:
    rule, line = expected(path)
    assert rule.replace("-", "_") == path.parent.name
    found = run(path)
    own = [each for each in found if each.rule == rule]
    if line is not None:
        lines = [place.line for each in own for place in each.places if Path(place.file).name == path.name]
        assert own, f"not found; instead:\n{found}"
        assert line in lines, f"found at {lines}:\n{found}"
    else:
        assert not own, str(found)


def test_every_rule_has_programs() -> None:
    for rule in rules():
        if rule.name == "ranks-diverge":  # needs two processes: tests/cli/test_explain.py
            continue
        folder = HERE / rule.name.replace("-", "_")
        assert len(list(folder.glob("bad_*.py"))) >= 3, f"{rule.name}: three programs that it finds are missing"
        assert len(list(folder.glob("ok_*.py"))) >= 3, f"{rule.name}: three look-alikes are missing"


def test_pages_have_all_parts() -> None:
    for rule in rules():
        for part in ("What it finds:", "Why it matters:", "Example::", "Instead::", "Limits:", "Sources:"):
            assert part in rule.page, f"{rule.name}: {part} is missing"
