"""Every example runs alone, and recorded it prints the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
QUICK = ["first_graph", "branch"]


def test_every_example_is_known() -> None:
    assert {"first_graph", "branch", "stocks", "dynamic_rnn"} <= {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", QUICK)
def test_output_is_the_same_recorded(name: str, tmp_path: Path) -> None:
    script = str(EXAMPLES / f"{name}.py")
    bare = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "plait", "run", "-o", "run.plait", script]
    recorded = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert recorded.stdout == bare.stdout
    assert f"{name}.py" in recorded.stderr and "graphs" in recorded.stderr


def test_first_graph_says_what_it_should(tmp_path: Path) -> None:
    import plait

    script = str(EXAMPLES / "first_graph.py")
    command = [sys.executable, "-m", "plait", "run", "-q", "-o", "run.plait", script]
    subprocess.run(command, capture_output=True, cwd=tmp_path, check=True)
    with plait.load(tmp_path / "run.plait") as recording:
        graph = recording.graph
        samples = {(each.what, graph.values[graph.nodes[each.node].outputs[0]].name): each.elements
                   for each in recording.samples(0)}  # fmt: skip
    assert samples["gradient", "z"] == [1.0, 1.0, 1.0]
    assert samples["gradient", "x"] == samples["value", "y"]
    assert samples["gradient", "y"] == samples["value", "x"]


def test_branch_shows_both_arms(tmp_path: Path) -> None:
    import plait

    script = str(EXAMPLES / "branch.py")
    command = [sys.executable, "-m", "plait", "run", "-q", "-o", "run.plait", script]
    subprocess.run(command, capture_output=True, cwd=tmp_path, check=True)
    with plait.load(tmp_path / "run.plait") as recording:
        read = [next(seen.read.value for seen in recording.decisions if seen.step == step) for step in (0, 1)]
        assert read == [2.0, 1.0]
        assert len(recording.variants) == 2
        assert len({variant.program for variant in recording.variants}) == 1
