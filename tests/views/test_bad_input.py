"""`plait view` of what is no good run: something sensible is shown, in one sentence, and never a traceback."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from handmade import Tape, loop
from plait.__main__ import main
from plait.recording import load
from plait.views._html import page
from plait.views._page import Pages


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence that `plait view` says before it gives up."""
    assert main(["view", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and "Traceback" not in err
    return err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are written where they do not stay."""
    monkeypatch.chdir(tmp_path)


def test_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.plait" in told(capsys, "nowhere.plait")


def test_a_file_that_is_no_recording(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.plait").write_text("hello, I am text " * 100)
    assert "run.plait" in told(capsys, "run.plait")


def test_another_database(capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect("run.plait") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    assert "no recording" in told(capsys, "run.plait")


def test_a_newer_version(capsys: pytest.CaptureFixture[str]) -> None:
    loop([[True]]).write(Path("run.plait"))
    with sqlite3.connect("run.plait") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "newer" in told(capsys, "run.plait")


def test_a_file_that_was_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    whole = loop([[True]] * 3).write(Path("run.plait")).read_bytes()
    Path("run.plait").write_bytes(whole[: len(whole) // 2])
    assert "run.plait" in told(capsys, "run.plait")


def test_a_step_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    loop([[True]]).write(Path("run.plait"))
    assert "no step 7" in told(capsys, "run.plait", "--step", "7")


def test_a_page_that_is_not_ours_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    loop([[True]]).write(Path("run.plait"))
    Path("run.html").write_text("<p>mine")
    assert "no page of plait" in told(capsys, "run.plait")
    assert Path("run.html").read_text() == "<p>mine"


def test_three_recordings_that_are_no_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    loop([[True]]).write(Path("run.plait"))
    assert "ranks of one job" in told(capsys, "run.plait", "run.plait", "run.plait")


def test_an_empty_run(capsys: pytest.CaptureFixture[str]) -> None:
    Tape().write(Path("run.plait"))
    assert main(["view", "run.plait"]) == 0
    assert capsys.readouterr().out == "run.html\n"


def test_a_run_that_crashed_shows_the_step_it_died_in() -> None:
    tape = loop([[True]])
    tape.op("zeros", out=tape.type(3))
    tape.end_step("train", complete=False)
    tape.meta["status"] = "error"
    with load(tape.write(Path("run.plait"))) as recording:
        head = Pages(recording).head([0, 1])
        assert head["steps"]["incomplete"] == [1] and head["meta"]["status"] == "error"
        assert "<html" in page(recording)


def test_a_run_without_its_sources() -> None:
    with sqlite3.connect(loop([[True]]).write(Path("run.plait"))) as connection:
        connection.execute("DELETE FROM source")
    connection.close()
    with load("run.plait") as recording:
        (file,) = Pages(recording).head([0])["files"]
        assert file["text"] is None and file["lines"]
        assert "<html" in page(recording)
