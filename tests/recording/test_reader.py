"""Reading recordings: what is in them, and one clear sentence for every file that is none."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from handmade import Tape, loop, product
from plait._errors import NotFoundError, RecordingError
from plait.recording import Recording, load
from plait.recording._schema import FORMAT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return loop([[True, False], [True], [True, False]]).write(tmp_path / "loop.plait")


@pytest.fixture
def recording(file: Path) -> Iterator[Recording]:
    with load(file) as opened:
        yield opened


def test_steps_are_a_sequence(recording: Recording) -> None:
    assert len(recording.steps) == 3
    assert [step.graph for step in recording.steps] == [0, 1, 0]
    assert recording.steps[-1].loss == 2.0
    assert [step.id for step in recording.steps[1:]] == [1, 2]
    assert recording.steps[0].reads[1].margin == 0.25


def test_variants_count_their_steps(recording: Recording) -> None:
    assert [(each.graph, each.steps, each.first_step, each.program) for each in recording.variants] == [
        (0, 2, 0, 0), (1, 1, 1, 0),
    ]  # fmt: skip


def test_decisions_of_all_steps(recording: Recording) -> None:
    assert [(seen.step, seen.outcome) for seen in recording.decisions] == [
        (0, True), (0, False), (1, True), (2, True), (2, False),
    ]  # fmt: skip
    assert {str(seen.site) for seen in recording.decisions} == {"/project/model.py:5"}


def test_the_graph_is_that_of_the_last_step_with_work(recording: Recording) -> None:
    assert recording.graph is recording.graph_number(0)
    assert recording.graph.legal() == []
    assert repr(recording).endswith("3 steps, 2 distinct graphs>")


def test_samples_stand_at_nodes(tmp_path: Path) -> None:
    with load(product().write(tmp_path / "p.plait")) as recording:
        samples = {(each.node, each.what): each.elements for each in recording.samples(0)}
        assert samples[(0, "value")] == [1.0, 2.0, 3.0]
        assert samples[(2, "gradient")] == [1.0, 1.0, 1.0]
        assert recording.durations(0) == (1000, 1000, 1000, 1000)


def test_what_is_not_there(recording: Recording) -> None:
    with pytest.raises(NotFoundError, match="there is no step 9: the recording has 3 steps, 0 to 2"):
        recording.steps[9]
    with pytest.raises(NotFoundError, match="no graph number 7"):
        recording.graph_number(7)


def test_a_step_over_the_limit_keeps_no_graph(tmp_path: Path) -> None:
    tape = loop([[True]])
    tape.enter("main")
    tape.end_step(keep=False)
    path = tape.write(tmp_path / "x.plait")
    with load(path) as recording, pytest.raises(NotFoundError, match="step 1 kept no graph: the limit"):
        recording.graph_of(1)


def test_the_html_summary_escapes(file: Path, tmp_path: Path) -> None:
    odd = tmp_path / "<b>.plait"
    shutil.copy(file, odd)
    with load(odd) as recording:
        html = recording._repr_html_()
    assert "&lt;b&gt;.plait" in html and "<b>" not in html
    assert "<table>" in html


# -- files that cannot be read ----------------------------------------------------------------------------------


def sentence(path: Path) -> str:
    with pytest.raises(RecordingError) as caught, load(path) as recording:
        for step in recording.steps:
            recording.graph_of(step)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text


def test_missing(tmp_path: Path) -> None:
    assert "there is no such file" in sentence(tmp_path / "no.plait")


def test_a_folder(tmp_path: Path) -> None:
    assert "this is a folder, not a recording" in sentence(tmp_path)


def test_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.plait"
    path.touch()
    assert "the file is empty" in sentence(path)


def test_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "text.plait"
    path.write_text("import torch\n")
    assert "no recording of plait" in sentence(path)


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.plait"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    assert "an SQLite database, but no recording of plait" in sentence(path)


def test_a_newer_format(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    assert f"written in format {FORMAT + 1} by a newer plait" in sentence(file)
    assert "Upgrade plait" in sentence(file)


@pytest.mark.parametrize("kept", [100, 1024, 4096, 8192, 20_000])
def test_cut_short(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    assert "damaged or cut short" in sentence(file) or "cannot be read" in sentence(file)


def test_locked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: connect(*args, **kwargs | {"timeout": 0.05}))
    holder = connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert "locked by another program" in sentence(file)
    finally:
        holder.close()


def test_tokens_that_point_nowhere(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM row WHERE id > 3")
    connection.commit()
    connection.close()
    assert "the file is damaged, graph 0 cannot be read" in sentence(file)


@pytest.mark.parametrize("damage", ["UPDATE graph SET tokens = x'00ff'", "UPDATE site SET body = '[1'"])
def test_contents_that_make_no_sense(file: Path, damage: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(damage)
    connection.commit()
    connection.close()
    assert "the file is damaged" in sentence(file)


def test_reading_leaves_the_file_alone(file: Path) -> None:
    before = file.read_bytes()
    with load(file) as recording:
        assert recording.decisions
        with pytest.raises(RecordingError):
            recording._all("DELETE FROM step")
    assert file.read_bytes() == before
    assert sorted(each.name for each in file.parent.iterdir()) == [file.name]


def test_a_recording_without_a_graph(tmp_path: Path) -> None:
    with load(Tape().write(tmp_path / "none.plait")) as recording:
        with pytest.raises(NotFoundError, match="holds no graph"):
            recording.graph  # noqa: B018
        assert recording.variants == () and recording.decisions == ()
