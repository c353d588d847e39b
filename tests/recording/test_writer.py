"""The writer: what it has written can be read whatever happens next, and it never fails the program."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import plait
from plait._errors import RecordingError
from plait.recording import _writer as writing
from plait.recording import load
from plait.recording._writer import Writer

SRC = Path(__file__).parents[2] / "src"


def step(number: int, graph: int | None = None) -> tuple[Any, ...]:
    return (number, graph, "rest", 0.0, 1, 1, None, None, 0, 1)


def leaf(length: int = 2) -> torch.Tensor:
    """Made while nothing is recorded."""
    return torch.ones(length, requires_grad=True)


def train(x: torch.Tensor, steps: int) -> None:
    """A program."""
    for _ in range(steps):
        (x * 2).sum().backward()


# -- a disk that is full ------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_recording_and_not_the_program(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.plait"
    x = leaf()
    rec = plait.record(path)
    with rec:
        train(x, 20)
        assert len(rec.steps) == 19  # the last one is not over
        rec._connection.execute("PRAGMA max_page_count = 30")
        for length in range(3000):
            (x * 2).expand(length + 1, 2).sum().backward()
            if length % 100 == 0:
                rec.finish()
    rec.close()
    assert float(x.grad.sum()) > 0
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("plait: recording stopped: ") and "disk is full" in err and "the program goes on" in err
    with load(path) as recording:
        assert len(recording.steps) >= 19
        for each in recording.steps:
            assert recording.graph_of(each).legal() == []


FULL = """
import resource, signal, sys, torch
from plait.__main__ import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.argv = ["s.py"]
script = '''
import resource, torch
x = torch.ones(2, requires_grad=True)
for _ in range(20):
    (x * 2).sum().backward()
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for length in range(600):
    (x * 2).expand(length + 1, 2).sum().backward()
print("done", int(x.grad[0]))
'''
sys.exit(main(["run", "-o", "full.plait", "-c", script]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_real_limit_of_the_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(SRC), "PLAIT_STRICT": ""},
    )  # fmt: skip
    expected = 2 * 20 + sum(2 * (length + 1) for length in range(600))
    assert (done.returncode, done.stdout) == (0, f"done {expected}\n")
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("plait: recording stopped: ")
    assert (tmp_path / "full.plait").stat().st_size <= 100_000
    with load(tmp_path / "full.plait") as recording:
        assert isinstance(len(recording.steps), int)
        for each in recording.steps[:5]:
            assert recording.graph_of(each).legal() == []


# -- a limit ------------------------------------------------------------------------------------------------------


def test_beyond_the_limit_steps_keep_their_numbers() -> None:
    x = leaf()
    with plait.record(limit=3) as rec:
        for length in (1, 2, 3, 4, 5, 1, 4, 2):
            x.grad = None
            (x[:1].expand(length) * 2).sum().backward()
    graphs = [each.graph for each in rec.steps]
    assert graphs == [0, 1, 2, None, None, 0, None, 1]
    assert [each.loss for each in rec.steps] == [2.0, 4.0, 6.0, 8.0, 10.0, 2.0, 8.0, 4.0]
    ((kind, text),) = rec.notes
    assert kind == "limit" and text.startswith("The limit of 3 distinct graphs was reached at step 3;")
    assert len(rec.variants) == 3


# -- company ------------------------------------------------------------------------------------------------------


def test_another_process_reads_while_the_program_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.plait"
    code = f"from plait import load; r = load({str(path)!r}); print(len(r.steps), len(r.graph.find('mul')))"
    x = leaf()
    with plait.record(path) as rec:
        for count in (5, 7):
            train(x, count)
            rec.step()
            rec.finish()
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(SRC)}
            )
            assert (done.stderr, done.stdout) == ("", f"{5 if count == 5 else 12} 1\n")


def test_a_reader_sees_a_recording_grow(tmp_path: Path) -> None:
    path = tmp_path / "run.plait"
    x = leaf()
    with plait.record(path) as rec:
        train(x, 3)
        rec.step()
        rec.finish()
        with load(path) as recording:
            assert len(recording.steps) == 3 and recording.graph.find("mul")
            torch.sigmoid(x)
            rec.step()
            rec.finish()
            assert recording.graph_of(recording.steps[-1]).find("sigmoid")


def test_a_locked_file_is_written_later(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.plait"
    writer = Writer(path)
    writer.add_step(step(0), ())
    writer.flush()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    writer.connection.execute("PRAGMA busy_timeout = 1")
    writer.add_step(step(1), ())
    writer.set_meta(x="1")
    writer.flush()
    assert writer.stopped is None and writer.waiting == 1
    holder.close()
    writer.add_step(step(2), ())
    writer.flush()
    writer.connection.close()
    with load(path) as recording:
        assert [each.id for each in recording.steps] == [0, 1, 2] and recording.meta["x"] == "1"
    assert capsys.readouterr().err == ""


def test_a_file_that_stays_locked_stops_the_recording(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_WAITING", 10)
    path = tmp_path / "run.plait"
    writer = Writer(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    writer.connection.execute("PRAGMA busy_timeout = 1")
    for number in range(12):
        writer.add_step(step(number), ())
        writer.flush()
    holder.close()
    assert writer.stopped is not None and "locked" in writer.stopped and writer.waiting == 0
    assert capsys.readouterr().err == writer.stopped + "\n"


def test_an_interrupt_in_the_middle_of_a_batch_loses_nothing(tmp_path: Path) -> None:
    """Ctrl-C comes where it likes: the batch is written whole the next time."""

    class Interrupting:
        def __init__(self, real: sqlite3.Connection, word: str) -> None:
            self._real, self._word = real, word

        def execute(self, sql: str, *values: Any) -> Any:
            if sql.startswith(self._word):
                raise KeyboardInterrupt
            return self._real.execute(sql, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    path = tmp_path / "run.plait"
    writer = Writer(path)
    real = writer.connection
    for number, word in enumerate(("BEGIN", "COMMIT")):
        writer.add_step(step(number), ())
        writer.connection = Interrupting(real, word)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            writer.flush()
        assert not real.in_transaction
        writer.connection = real
    writer.add_step(step(2), ())
    writer.flush()
    real.close()
    with load(path) as recording:
        assert [each.id for each in recording.steps] == [0, 1, 2]


def test_a_copy_taken_in_the_middle_of_a_batch_is_undone(tmp_path: Path) -> None:
    """As after a crash: the file with a half-written batch and its journal."""
    path, copy = tmp_path / "run.plait", tmp_path / "copy.plait"
    writer = Writer(path)
    for number in range(100):
        writer.add_step(step(number), ())
    writer.flush()
    writer.connection.execute("PRAGMA cache_size = 1")
    writer.connection.execute("BEGIN IMMEDIATE")
    writer.connection.execute("UPDATE step SET kind = 'train', reads = ?", ("[" + " " * 9000 + "]",))
    shutil.copy(path, copy)
    shutil.copy(f"{path}-journal", f"{copy}-journal")
    writer.connection.execute("ROLLBACK")
    writer.connection.close()
    with load(copy) as recording:
        assert {each.kind for each in recording.steps} == {"rest"} and len(recording.steps) == 100


# -- files --------------------------------------------------------------------------------------------------------


def test_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "there.plait").write_text("x")
    for path, says in (
        (tmp_path / "no" / "run.plait", "there is no folder"),
        (tmp_path, "this is a folder; name a file to record into"),
        (tmp_path / "there.plait", "the file exists; use another name, or -f to overwrite it"),
        (Path("/proc/run.plait"), "cannot record into this file"),
    ):
        with pytest.raises(RecordingError) as caught:
            plait.record(path)
        assert says in str(caught.value) and str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    assert (tmp_path / "there.plait").read_text() == "x"


def test_overwriting_leaves_nothing_of_the_old_file(tmp_path: Path) -> None:
    path, x = tmp_path / "run.plait", leaf()
    with plait.record(path) as rec:
        train(x, 5)
    rec.close()
    with plait.record(path, overwrite=True) as rec:
        train(x, 2)
    rec.close()
    with load(path) as recording:
        assert len(recording.steps) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["run.plait"]


def test_save_writes_what_was_kept_in_memory(tmp_path: Path) -> None:
    x = leaf()
    with plait.record() as rec:
        train(x, 3)
    rec.save(tmp_path / "run.plait")
    with pytest.raises(RecordingError, match="the file exists"):
        rec.save(tmp_path / "run.plait")
    with load(tmp_path / "run.plait") as recording:
        assert [each.loss for each in recording.steps] == [each.loss for each in rec.steps]


# -- size ---------------------------------------------------------------------------------------------------------


def test_many_steps_of_one_graph_are_a_small_file_and_little_memory(tmp_path: Path) -> None:
    path, x = tmp_path / "run.plait", leaf()
    with plait.record(path) as rec:
        for count in range(3000):
            x.grad = None
            (x * 2).sum().backward()
            if count == 300:
                before = (len(rec.tape.rows), len(rec.tape.hot), len(rec.tape.sites.bodies), len(rec.tape.earlier))
        after = (len(rec.tape.rows), len(rec.tape.hot), len(rec.tape.sites.bodies), len(rec.tape.earlier))
        assert after == before
        assert rec._writer.waiting <= 5001 and len(rec.tape.tokens) < 100
    rec.close()
    assert path.stat().st_size < 400_000
    with load(path) as recording:
        assert len(recording.steps) == 3000 and len(recording.variants) == 1


# -- numbers that are none ----------------------------------------------------------------------------------------


def test_a_loss_that_is_nan_or_infinite_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.plait"
    x = leaf()
    with plait.record(path, values="stats"):
        for factor in (1.0, float("nan"), float("inf")):
            (x * factor).sum().backward()
    with load(path) as recording:
        assert [str(each.loss) for each in recording.steps if each.kind == "train"] == ["2.0", "nan", "inf"]
        norms = [each.norm_out for each in recording.backward_stats(recording.steps[1].id)]
        assert any(str(each) == "nan" for each in norms)
