"""The commands as a person types them: answers on stdout, one sentence on stderr, the right exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handmade import loop, product
from plait import __version__, views
from plait.__main__ import main

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(loop([[True, False], [True]]).write(tmp_path / "loop.plait"))


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "plait", *words], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(SRC)} | environment,
    )  # fmt: skip


def test_show_prints_the_report(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", file]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("program   model.py")
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (["--source"], "model.py   21 ops"),
        (["--graph"], "step 1 (train), graph 1"),
        (["--step", "0"], "step 0 (train), graph 0"),
        (["--step", "-2"], "step 0 (train), graph 0"),
        (["--step=-1", "--graph"], "step 1 (train), graph 1"),
    ],
)
def test_show_one_thing(file: str, capsys: pytest.CaptureFixture[str], options: list[str], begins: str) -> None:
    assert main(["show", file, *options]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(begins) and err == ""


def test_show_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "plait.show"
    assert main(["show", file, "--json", "--step", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["step"]["id"] == 1


@pytest.mark.parametrize("to", views.EXPORTS)
def test_export(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str) -> None:
    assert main(["export", file, "--to", to]) == 0
    printed, err = capsys.readouterr()
    assert printed.strip() and err == ""
    out = tmp_path / "out"
    assert main(["export", file, "--to", to, "-o", str(out)]) == 0
    assert out.read_text() == printed
    assert capsys.readouterr().out == ""


WRONG = [
    ([], 0, ""),
    (["shwo"], 2, "plait: there is no command 'shwo'; did you mean `plait show`?\n"),
    (["xyzzy"], 2, "plait: there is no command 'xyzzy'; `plait --help` lists the commands\n"),
    (["show"], 2, "plait: the following arguments are required: FILE; see `plait show --help`\n"),
    (["show", "no.plait"], 2, "plait: no.plait: there is no such file\n"),
    (["show", "{file}", "--step", "9"], 2, "plait: there is no step 9: the recording has 2 steps, 0 to 1\n"),
    (["show", "{file}", "--step", "x"], 2, "plait: argument --step: invalid int value: 'x'; see `plait show --help`\n"),
    (["show", "{file}", "--source", "--graph"], 2,
     "plait: --source is about the whole run; give it without --graph and --step\n"),
    (["export", "{file}"], 2, "plait: the following arguments are required: --to; see `plait export --help`\n"),
    (["export", "{file}", "--to", "dot", "-o", "{file}"], 2,
     "plait: {file}: this file is there already; give -f to overwrite it or another name\n"),
    (["export", "{file}", "--to", "dot", "-o", "/nowhere/x"], 2,
     "plait: /nowhere/x: cannot be written (No such file or directory)\n"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "status", "sentence"), WRONG)
def test_mistakes(file: str, capsys: pytest.CaptureFixture[str], words: list[str], status: int, sentence: str) -> None:
    assert main([word.format(file=file) for word in words]) == status
    out, err = capsys.readouterr()
    assert err == sentence.format(file=file)
    assert (out == "") == (status == 2)


def test_a_format_that_is_not_there(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", file, "--to", "png"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("plait: argument --to: invalid choice: 'png'") and err.count("\n") == 1


def test_times_that_were_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = product()
    tape.durations = False
    assert main(["export", str(tape.write(tmp_path / "x.plait")), "--to", "perfetto"]) == 2
    assert capsys.readouterr().err == (
        "plait: the times of single operations were not kept for step 0; choose another step\n"
    )


def test_a_damaged_file_gives_a_sentence(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(file).read_bytes()
    Path(file).write_bytes(data[:12_000])
    assert main(["show", file]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"plait: {file}: the file is damaged") and err.count("\n") == 1


def test_a_fault_of_ours_is_a_sentence_too(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(views, "show", fail)
    assert main(["show", file]) == 2
    assert "a fault of plait itself, please report it (ZeroDivisionError: oops)" in capsys.readouterr().err
    monkeypatch.setenv("PLAIT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["show", file])


@pytest.mark.parametrize(
    "words", [["--help"], ["-h"], ["help"], ["help", "show"], ["show", "--help"], ["export", "-h"]]
)
def test_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "usage: plait" in out and err == ""
    assert max(map(len, out.split("\n"))) <= 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"plait {__version__}\n"


# -- as a process -----------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_early_is_no_error(file: str) -> None:
    tape = loop([[True] * 40])
    big = tape.write(Path(file).with_name("big.plait"))
    command = f"{sys.executable} -m plait show {big} --json --step 0 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(SRC)}, timeout=60
    )
    assert done.stdout == "{\n0\n" and done.stderr == ""


def test_show_and_export_never_import_torch(file: str) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
sys.modules["numpy"] = None
from plait.__main__ import main
for words in (["show", {file!r}], ["show", {file!r}, "--json"], ["--help"], ["show", "--help"]):
    assert main(words) == 0
for to in ("dot", "mermaid", "json", "perfetto"):
    assert main(["export", {file!r}, "--to", to]) == 0
assert "argparse" in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_ascii_terminal(file: str) -> None:
    done = run("show", file, "--graph", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "|- @ for x in xs" in run("show", file, "--step", "0", PYTHONIOENCODING="ascii").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal(file: str, no_color: str, coloured: bool) -> None:
    import pty

    leader, follower = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(SRC), "NO_COLOR": no_color, "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "plait", "show", file], stdout=follower, env=environment)
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        written += part
    assert process.wait(timeout=60) == 0
    os.close(leader)
    assert (b"\x1b[" in written) == coloured


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_program_comes_to_its_own_end(command: str, tmp_path: Path) -> None:
    """The commands that only read end at once; those that ran a program let it do what it does at its end."""
    script = tmp_path / "script.py"
    script.write_text("import atexit, torch\natexit.register(print, 'good' + 'bye')\ntorch.ones(2) + 1\n")
    options = ["-o", str(tmp_path / "run.plait")] if command == "run" else []
    assert "goodbye" in run(command, *options, str(script)).stdout
