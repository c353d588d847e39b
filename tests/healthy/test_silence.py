"""Nothing alarming is said of healthy programs: the ones in this folder and the examples of the repository."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch

import plait
from plait.rules import explain_recording

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
PROGRAMS = sorted(each for each in HERE.glob("*.py") if not each.name.startswith("test_"))
# What an example shows on purpose.
SHOWN = {"dynamic_rnn.py": {"decision-mixes-examples", "padding-reaches-output"}, "branch.py": {"loss-without-graph"}}


def explain(path: Path, arguments: list[str]) -> plait.Findings:
    """What is said of a program, with gradients measured."""
    torch.manual_seed(0)
    record = plait.record(values="stats")
    old, sys.argv = sys.argv, [str(path), *arguments]
    sys.path.insert(0, str(path.parent))  # as Python does for a script
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), record:
            warnings.simplefilter("ignore")
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = old
        sys.path.remove(str(path.parent))
    try:
        return explain_recording(record, select=("correctness", "suspicious", "numerics"), strict=True)
    finally:
        record.close()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_healthy_program(path: Path) -> None:
    assert not (found := explain(path, [])), str(found)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    if path.name == "stocks.py":
        pytest.importorskip("arch")
    found = [each for each in explain(path, []) if each.rule not in SHOWN.get(path.name, set())]
    assert not found, str(plait.Findings(found))
