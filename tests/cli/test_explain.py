"""`plait explain` and `plait rules`: formats, choices, exit status, bad input, ranks, and no torch for a file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import plait
from plait.__main__ import main
from plait.rules import explain_recording, rules

SRC = Path(__file__).parents[2] / "src"
CUT = """\
import torch
from torch import nn

net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = net(torch.ones(4, 3))
    wrong = (out.argmax(1) != 0).float().mean(){comment}
    loss = out.square().mean() + 0.1 * wrong
    opt.zero_grad()
    loss.backward()
    opt.step()
print("the program's own words")
"""
HEALTHY = """\
import torch

w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
"""
FORK = """\
from torch import nn
import torch

one, two = nn.Linear(2, 1), nn.Linear(2, 1)
for step in range(3):
    x = torch.full((3, 2), -1.0 if step == 1 and RANK else 1.0)
    y = one(x) if x.sum() > 0 else two(x)
    y.sum().backward()
"""


def record(folder: Path, source: str, name: str = "run.plait", script: str = "train.py", **names: object) -> str:
    """The recording of a program that lies in a folder."""
    path = folder / script
    path.write_text(source)
    with plait.record(folder / name) as recording:
        exec(compile(source, str(path), "exec", dont_inherit=True), {"__name__": "__main__", **names})
        recording.finish()
        shutil.copy(folder / name, folder / f"killed.{name}")  # what is there if the program is killed now
    recording.close()
    return str(folder / name)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record(tmp_path_factory.mktemp("cut"), CUT.format(comment=""))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record(tmp_path_factory.mktemp("healthy"), HEALTHY)


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program takes over `__main__`, `sys.argv` and `sys.path`."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_text(file: str, healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "explain", file, "--select", "suspicious")
    assert (status, err) == (1, "")
    assert out.startswith("suspicious\n\n") and "train.py:8" in out and "(term-without-gradient" in out
    assert out.endswith("1 finding\n")
    assert answer(capsys, "explain", healthy) == (0, "nothing found\n", "")


def test_json(file: str, healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "explain", file, "--json", "--select", "suspicious")
    found = json.loads(out)
    assert (status, err, found["schema"], found["remarks"]) == (1, "", "plait.findings/1", [])
    (finding,) = found["findings"]
    assert finding["rule"] == "term-without-gradient" and finding["steps"] == [1, 2, 3]
    assert finding["places"][0]["line"] == 8 and finding["places"][0]["file"].endswith("train.py")
    assert all(finding[part].endswith((".", ")")) for part in ("fact", "consequence", "cure"))
    assert json.loads(answer(capsys, "explain", healthy, "--json")[1])["findings"] == []


def test_github(file: str, healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "explain", file, "--format", "github", "--select", "suspicious")
    assert status == 1 and out.count("\n") == 1
    command, _, message = out.removeprefix("::").partition("::")
    kind, _, properties = command.partition(" ")
    assert kind in ("error", "warning", "notice")
    assert properties.endswith("train.py,line=8,title=term-without-gradient")
    assert "%0A" in message and "term" in message
    assert answer(capsys, "explain", healthy, "--format", "github") == (0, "", "")


def test_sarif(file: str, healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The fields that SARIF 2.1.0 requires, and the links between them."""
    for name in (file, healthy):
        status, out, _ = answer(capsys, "explain", name, "--format", "sarif")
        log = json.loads(out)
        assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
        (run,) = log["runs"]
        driver = run["tool"]["driver"]
        assert driver["name"] == "plait" and driver["version"] == plait.__version__
        known = [each["id"] for each in driver["rules"]]
        assert len(set(known)) == len(known)
        assert all(each["shortDescription"]["text"] for each in driver["rules"])
        assert bool(run["results"]) is (status == 1)
        for result in run["results"]:
            assert known[result["ruleIndex"]] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            for location in (*result["locations"], *result["relatedLocations"]):
                physical = location["physicalLocation"]
                assert isinstance(physical["artifactLocation"]["uri"], str)
                assert "\\" not in physical["artifactLocation"]["uri"]
                assert physical["region"]["startLine"] >= 1


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--select", "term-without-gradient"], True),
        (["--select", "numerics"], False),
        (["--select", "numerics,suspicious"], True),
        (["--select", "numerics", "--select", "suspicious"], True),
        (["--select", "suspicious", "--ignore", "term-without-gradient"], False),
        (["--ignore", "suspicious,dynamism,performance,memory"], False),
    ],
)
def test_select_and_ignore(file: str, capsys: pytest.CaptureFixture[str], options: list[str], found: bool) -> None:
    for words in (["explain", file, *options], ["explain", *options, file]):
        status, out, err = answer(capsys, *words)
        assert (status, "term-without-gradient" in out, err) == (int(found), found, "")


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("  # plait: ignore", True),
        ("  # plait: ignore[term-without-gradient]", True),
        ("  # plait: ignore[stale-gradient, suspicious]", True),
        ("  # plait: ignore[stale-gradient]", False),
        ("  # plait ignores nothing", False),
    ],
)
def test_comment_in_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str], comment: str, silent: bool) -> None:
    name = record(tmp_path, CUT.format(comment=comment))
    status, out, _ = answer(capsys, "explain", name, "--select", "suspicious")
    assert (status, out == "nothing found\n") == (int(not silent), silent)


def test_script(tmp_path: Path, capfd: pytest.CaptureFixture[str], as_it_was: None) -> None:
    script = tmp_path / "train.py"
    script.write_text(CUT.format(comment=""))
    assert main(["explain", "--select", "suspicious", str(script)]) == 1
    out, err = capfd.readouterr()
    assert "term-without-gradient" in out and "own words" not in out
    assert "the program's own words" in err


def test_script_that_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str], as_it_was: None) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEALTHY + "raise ValueError('the program itself')\n")
    assert main(["explain", str(script)]) == 2
    out, err = capfd.readouterr()
    assert "ValueError: the program itself" in err
    assert err.rstrip().splitlines()[-1].startswith("plait: ") and "failed" in err.rstrip().splitlines()[-1]
    assert out == "nothing found\n"


def test_script_that_fails_for_a_known_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], as_it_was: None
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n\ntorch.ones(3).sum().backward()\n")
    assert main(["explain", str(script)]) == 1
    out, _ = capfd.readouterr()
    assert "loss-without-graph" in out and "train.py:3" in out


def test_bad_input(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.plait"
    text.write_text("no recording")
    database = tmp_path / "other.plait"
    import sqlite3

    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE other (id INTEGER)")
    made.close()
    for words, said in (
        (["explain"], "name a recording or a program"),
        (["explain", "missing.plait"], "missing.plait: there is no such file"),
        (["explain", "missing.py"], "missing.py"),
        (["explain", str(text)], "notes.plait"),
        (["explain", str(database)], "other.plait"),
        (["explain", file, "--select", "no-such-rule"], "there is no rule or category 'no-such-rule'"),
        (["explain", file, "--ignore", "no-such-category"], "there is no rule or category 'no-such-category'"),
        (["explain", file, "--format", "xml"], "invalid choice: 'xml'"),
        (["rules", "no-such-rule"], "there is no rule 'no-such-rule'"),
    ):
        status, out, err = answer(capsys, *words)
        assert (status, out) == (2, ""), words
        assert err.startswith("plait: ") and said in err and err.count("\n") == 1, err
        assert "Traceback" not in err


def test_rules(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = answer(capsys, "rules")
    assert (status, err) == (0, "")
    for each in rules():
        assert f"  {each.name} " in out and each.title in out
        status, page, _ = answer(capsys, "rules", each.name)
        assert status == 0 and page.startswith(f"{each.name} ({each.category})\n") and "What it finds:" in page


def test_a_file_is_explained_without_torch(file: str) -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # `import torch` raises ImportError from now on
        "from plait.__main__ import main\n"
        f"sys.exit(main(['explain', {file!r}, '--select', 'suspicious']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(SRC)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "term-without-gradient" in done.stdout


def test_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [record(tmp_path, FORK, f"run.rank{rank}.plait", RANK=rank) for rank in range(2)]
    status, out, err = answer(capsys, "explain", *files, "--select", "ranks-diverge")
    assert (status, err) == (1, "")
    assert "train.py:7  The ranks part in step 2: the decision `x.sum() > 0` differs" in out
    assert "rank 0" in out and "rank 1" in out and "1 finding" in out
    whole = json.loads(answer(capsys, "explain", *files, "--json")[1])["findings"]
    places = [(each["rule"], str(each["places"])) for each in whole]
    assert len(set(places)) == len(places)  # what both ranks show is said once
    assert answer(capsys, "explain", *files, "--ignore", "dynamism,performance,suspicious")[0] == 0
    same = [files[0], str(tmp_path / "copy.rank1.plait")]
    shutil.copy(files[0], same[1])
    assert answer(capsys, "explain", *same, "--select", "ranks-diverge")[0] == 0


def test_ranks_of_a_job_that_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        record(tmp_path, FORK, f"run.rank{rank}.plait", RANK=rank)
    files = [str(tmp_path / f"killed.run.rank{rank}.plait") for rank in range(2)]
    status, out, _ = answer(capsys, "explain", *files, "--select", "ranks-diverge")
    assert status == 1 and "The ranks part in step 2" in out


def test_a_rank_that_stopped_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import torch\n\nw = torch.ones(2, requires_grad=True)\nfor _ in range(STEPS):\n    (w * w).sum().backward()\n"
    )
    files = [record(tmp_path, program, f"run.rank{rank}.plait", STEPS=5 - 2 * rank) for rank in range(2)]
    status, out, _ = answer(capsys, "explain", *files, "--select", "ranks-diverge")
    assert status == 1 and "rank 0: 6 steps" in out and "rank 1: 4 steps" in out and "what rank 1 did last" in out


def test_one_rank_alone_is_a_recording_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = record(tmp_path, FORK, "run.rank0.plait", RANK=0)
    assert answer(capsys, "explain", name, "--select", "ranks-diverge") == (0, "nothing found\n", "")


def test_an_exception() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught, plait.record():
        y = x.exp()
        y += 1
        y.sum().backward()
    (finding,) = plait.explain(caught.value)
    assert finding.rule == "inplace-on-saved-tensor" and finding.place is not None
    assert Path(finding.place.file).name == "test_explain.py"
    outer = ValueError("the program's own")
    outer.__cause__ = caught.value
    assert [each.rule for each in plait.explain(outer)] == ["inplace-on-saved-tensor"]


def test_an_exception_that_nothing_is_known_of() -> None:
    with pytest.raises(plait.PlaitError, match="nothing is known of this KeyError: it was not raised while plait"):
        plait.explain(KeyError("x"))


def test_a_part_of_a_varied_run(tmp_path: Path) -> None:
    program = (
        "import torch\n\nw = torch.ones(2, requires_grad=True)\n"
        "for n in range(1, 9):\n    y = w\n    for _ in range(n):\n        y = y * 1.1\n    y.sum().backward()\n"
    )
    with plait.load(record(tmp_path, program)) as recording:
        whole, part = explain_recording(recording), explain_recording(recording, budget=60)
    assert whole.remarks == ()
    (sentence,) = part.remarks
    assert sentence.startswith("Only ") and "of the 9 distinct graphs of the run were looked at" in sentence
    assert sentence in str(part) and json.loads(part.format("json"))["remarks"] == [sentence]
