"""diff: equal, other sizes, the first decision, rounds, operations; across versions of a source; ranks."""

import json
import linecache
import sys

import pytest
import torch

import plait
from plait import diff
from plait.__main__ import main
from plait.diffs import diff_ranks

SOURCE = """\
import torch

def model(w, xs):
    h = torch.zeros(3)
    for x in xs:
        h = h * w + x
        if h.mean() > 0:
            h = torch.relu(h)
        else:
            h = torch.tanh(h)
    return h.sum()
"""


def run(values, source=SOURCE, name="model.py", weight=0.5):
    """A recording of one step of `source` on these rows."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space = {}
    exec(compile(source, name, "exec"), space)
    with plait.record() as recording:
        w = torch.full((3,), weight, requires_grad=True)
        space["model"](w, torch.tensor(values)).backward()
    return recording


def rows(*values, width=3):
    return [[value] * width for value in values]


def test_equal_runs():
    found = diff(run(rows(1.0, 2.0)), run(rows(3.0, 4.0)))
    assert found.verdict == "equal" and not found
    assert found.divergence is None and found.only_a == found.only_b == ()


def test_the_first_decision_with_its_values_and_arms():
    found = diff(run(rows(1.0, 2.0, -9.0)), run(rows(1.0, 2.0, 5.0)))
    assert found.verdict == "diverges"
    where = found.divergence
    assert where.kind == "decision" and where.label == "h.mean() > 0" and where.comparison == ">"
    assert (where.a.outcome, where.b.outcome) == (False, True)
    assert where.a.site.line == 7
    assert where.a.left != where.b.left and where.a.margin == abs(where.a.left)
    assert {where.a.arm, where.b.arm} == {"line 8 `h = torch.relu(h)`", "line 10 `h = torch.tanh(h)`"}
    assert "model.py:7" in str(found)


def test_rounds_of_a_loop():
    found = diff(run(rows(1.0, 2.0)), run(rows(1.0, 2.0, 3.0, 4.0)))
    where = found.divergence
    assert where.kind == "trips" and where.label == "for x in xs"
    assert (where.a.trips, where.b.trips) == (2, 4)
    assert where.a.site.line == 5
    assert any("h * w + x" in each for each in found.only_b) and found.only_a == ()


def test_other_sizes():
    source = SOURCE.replace("torch.zeros(3)", "torch.zeros(len(xs[0]))").replace("h * w + x", "h * w[0] + x")
    found = diff(run(rows(1.0, width=3), source), run(rows(1.0, width=5), source))
    assert found.verdict == "sizes" and found
    assert {each.field for each in found.changed} == {"shape"}


def test_lines_that_move_are_no_difference():
    moved = "# a comment\n\n" + SOURCE.replace("h = h * w + x", "h = (h * w) + x  # reworded")
    found = diff(run(rows(1.0, 2.0)), run(rows(1.0, 2.0), moved))
    assert found.verdict == "equal"


def test_a_new_operation_of_another_version():
    other = "# moved\n" + SOURCE.replace("h = h * w + x", "h = torch.sin(h) * w + x")
    found = diff(run(rows(1.0, 2.0)), run(rows(1.0, 2.0), other))
    assert found.verdict == "diverges" and found.divergence.kind == "op"
    assert found.only_a == () and len(found.only_b) == 2
    assert all("torch.sin(h)" in each for each in found.only_b)


def test_another_dtype_is_a_change():
    other = SOURCE.replace("return h.sum()", "return h.double().sum()")
    found = diff(run(rows(1.0), SOURCE.replace("return h.sum()", "return h.to(torch.float32).sum()")), run(rows(1.0)))
    assert found.verdict == "diverges"
    found = diff(run(rows(1.0), other), run(rows(1.0), other.replace("double", "half")))
    assert found.verdict in ("changed", "diverges")


def test_a_decision_flips_across_versions():
    moved = "\n\n" + SOURCE
    found = diff(run(rows(1.0)), run(rows(-1.0), moved))
    assert found.divergence.kind == "decision"
    assert (found.divergence.a.site.line, found.divergence.b.site.line) == (7, 9)


def test_the_number_that_was_read_before():
    source = SOURCE.replace("for x in xs:", "for x in xs[: int(xs[0][0])]:")
    found = diff(run(rows(1.0, 2.0, 2.0), source), run(rows(2.0, 2.0, 2.0), source))
    assert "int(xs[0][0])" in (found.divergence.cause or "")


def test_steps_graphs_and_pairs():
    w = torch.ones(3, requires_grad=True)
    with plait.record() as recording:
        for count in (1, 1, 2):
            loss = w
            for _ in range(count):
                loss = loss * 2
            loss.sum().backward()
    assert not diff((recording, 0), (recording, 1))
    found = diff((recording, 0), (recording, -1))
    assert found.steps == (0, 2)
    assert diff(recording.graph_of(0), recording.graph_of(2)).verdict == "diverges"
    assert diff(recording, recording.graph).verdict == "equal"


def test_runs_of_other_lengths():
    def program(count):
        with plait.record() as recording:
            w = torch.ones(3, requires_grad=True)
            for _ in range(count):
                (w * 2).sum().backward()
        return recording

    found = diff(program(2), program(3))
    assert found.verdict == "diverges" and "3 steps" in found.note and "4 steps" in found.note


def test_bad_input_is_one_sentence():
    with pytest.raises(plait.PlaitError, match="give a recording"):
        diff(3, 4)
    with pytest.raises(plait.PlaitError, match="no such file"):
        diff("nowhere.plait", "nowhere.plait")


def test_command(tmp_path, capsys):
    files = []
    for name, values in (("a", rows(1.0)), ("b", rows(1.0)), ("c", rows(-1.0))):
        files.append(str(tmp_path / f"{name}.plait"))
        run(values).save(files[-1])
    assert main(["diff", files[0], files[1]]) == 0
    assert "the same graph" in capsys.readouterr().out
    assert main(["diff", files[0], files[2]]) == 1
    assert "h.mean() > 0" in capsys.readouterr().out
    assert main(["diff", files[0], files[2] + "@0", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "plait-diff" and document["version"] == 1
    assert document["divergence"]["a"]["line"] == 7
    assert main(["diff", files[0]]) == 2
    assert main(["diff", files[0], str(tmp_path / "none.plait")]) == 2
    assert main(["diff", files[0] + "@x", files[1]]) == 2
    assert main(["diff", *files]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4 and all(line.startswith("plait: ") for line in lines)


def test_ranks(tmp_path):
    paths = []
    for rank, value in enumerate((1.0, 1.0, -1.0)):
        paths.append(str(tmp_path / f"run.rank{rank}.plait"))
        run(rows(value)).save(paths[-1])
    found = diff_ranks(paths)
    assert found and found.divergence.kind == "decision"
    assert [rank.half.outcome for rank in found.ranks] == [True, True, False]
    assert "The ranks part in step 0" in str(found) and "model.py:7" in str(found)
    assert not diff_ranks(paths[:2])
    assert main(["diff", *paths]) == 1


def test_no_torch_is_needed(tmp_path):
    import subprocess

    run(rows(1.0)).save(tmp_path / "a.plait")
    code = "import sys; sys.modules['torch'] = None; from plait.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "diff", str(tmp_path / "a.plait"), str(tmp_path / "a.plait")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
