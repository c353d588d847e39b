"""What a person reads, word by word where the words matter."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from handmade import Tape, loop, product
from plait import views
from plait.recording import Recording, load

PRODUCT_TREE = """\
x = leaf f32[3]  [1, 2, 3]                                                                model.py:3
y = leaf f32[3]  [4, 5, 6]                                                                model.py:4

├─ z = mul(x, y)  f32[3]                                                                  model.py:5
├─ loss = sum(z)  f32[]                                                                   model.py:6
└─ ← backward from loss                                                                   model.py:7
   d loss / d loss = 1
   d loss / d z    = [1, 1, 1]
   d loss / d y    = [1, 2, 3]  y.grad
   d loss / d x    = [4, 5, 6]  x.grad"""

LOOP_SOURCE = """\
model.py   26 ops, 30 us
 runs   ops   time   %  saved  line
                                  1  def forward(xs):
    2     2   2 us   7            2      h = xs[0]
    4     4   4 us  13            3      for x in xs:   ↻ x 1..3
    4     4   8 us  27            4          h = h + x
    4     8   8 us  27            5          if h.mean() > 0:
                                             ? 3x True, 1x False; closest 0.17 (step 0)
    3     3   3 us  10   40 B     6              h = torch.relu(h)
                                  7          else:
    1     1   1 us   3   20 B     8              h = torch.tanh(h)
    2     2   2 us   7            9      return h.detach()   / 2x detach
                                      ...
                                 12  def main(data):
                                 13      for xs in data:   ↻ around the steps
    2     2   2 us   7           14          loss = forward(xs).sum()
                                 15          loss.backward()   ← 2 backward passes

? decision   ↻ loop and its rounds   / gradient path cut   ← backward pass
saved: kept for backward in step 0, the largest; parameters, inputs and shared storage aside"""

LOOP_GRAPH = """\
step 0 (train), graph 0: 18 ops, 1 ms, loss 3

xs = data f32[3, 5]

├─ forward                                                                               model.py:14
│  ├─ h = getitem(xs)  f32[5]                                                             model.py:2
│  ├─ ↻ for x in xs  x 3
│  │  ├─ $2 = unbind(xs)  f32[5]                                                          model.py:3
│  │  ├─ h = add(h, $2)  f32[5]                                                           model.py:4
│  │  ├─ $4 = mean(h)  f32[]                                                              model.py:5
│  │  ├─ $5 = gt($4)  bool[]                                                              model.py:5
│  │  ├─ ? h.mean() > 0: 2x True, 1x False  closest 0.17                                  model.py:5
│  │  ├─ 2x h = relu(h)  f32[5]                                                           model.py:6
│  │  └─ 1x h = tanh(h)  f32[5]                                                           model.py:8
│  └─ $17 = detach(h)  f32[5]  / detach                                                   model.py:9
├─ loss = sum($17)  f32[]                                                                model.py:14
└─ ← backward from loss                                                                  model.py:15"""


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with load(loop([[True, False, True], [True]]).write(tmp_path / "loop.plait")) as opened:
        yield opened


def test_the_backward_walk_in_numbers(tmp_path: Path) -> None:
    with load(product().write(tmp_path / "p.plait")) as recording:
        assert views.show_graph(recording) == f"step 0 (train), graph 0: 2 ops, 1 ms, loss 32\n\n{PRODUCT_TREE}"
        assert views.show(recording).endswith(f"\nStep 0\n{PRODUCT_TREE}")


def test_the_annotated_source(recording: Recording) -> None:
    assert views.show_source(recording) == LOOP_SOURCE


def test_a_loop_is_folded(recording: Recording) -> None:
    assert views.show_graph(recording, 0) == LOOP_GRAPH


def test_the_summary_has_five_lines(recording: Recording) -> None:
    summary = views.report(recording).split("\n\n")[0].split("\n")
    assert summary == [
        "program   model.py   (python 3.11.15, torch 2.13.0)",
        "steps     2 training steps; 1 ms each; loss 3 to 1",
        "graphs    2 distinct, 1 program; 8..18 ops; up to 60 B kept for backward",
        "decisions 4 at 1 place, which went both ways",
        "time      1.5 s in all, 30 us in 26 operations",
    ]


def test_the_report_ends_with_commands_that_work(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    commands = re.findall(r"^  (plait .*?)   ", views.report(recording), re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        assert main(command.split()[1:]) in ((0, 1) if "explain" in command else (0,))


def test_tables(recording: Recording) -> None:
    text = views.show(recording)
    assert "program 0   2 training steps, 2 graphs, 8..18 ops; xs f32[1..3, 5]; rounds x 1..3" in text
    assert "      1      1      1     8  xs f32[1, 5]  x 1     model.py:3 for x in xs ends" in text
    assert """\
Decisions
? model.py:5  h.mean() > 0
              3x True   line 6: h = torch.relu(h)
              1x False  line 8: h = torch.tanh(h)
              closest 0.17 (step 0)""" in text  # fmt: skip


def test_notes_are_shown(tmp_path: Path) -> None:
    tape = loop([[True]])
    tape.notes.append(("limit", "100,000 distinct graphs were kept; later ones are only counted."))
    tape.meta["exit_status"] = "3"
    with load(tape.write(tmp_path / "x.plait")) as recording:
        text = views.report(recording)
    assert "! 100,000 distinct graphs were kept; later ones are only counted." in text
    assert "ended with status 3" in text


def test_an_empty_recording(tmp_path: Path) -> None:
    with load(Tape().write(tmp_path / "x.plait")) as recording:
        assert "No line of the program ran an operation on tensors" in views.report(recording)
        text = views.show(recording)
    assert "No graph was kept." in text and "No tensor was asked for its value." in text


def test_a_source_that_was_not_kept(tmp_path: Path) -> None:
    tape = loop([[True]])
    path = tape.write(tmp_path / "x.plait")
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM source")
    connection.commit()
    connection.close()
    with load(path) as recording:
        assert "(source not kept)" in views.show_source(recording)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_longer_than_asked(tmp_path: Path, width: int) -> None:
    long = "x" * 150
    tape = Tape(f"{long} = f({long})\nfor {long} in {long}:\n    y = f({long})\n")
    x = tape.input("data", tape.type(3), long)
    for number in (1, 3):
        place = tape.op(long, x, x, x, out=tape.type(3), site=tape.site(number, f"f({long})", "<module>"))
    tape.read(tape.to(place), tape.site(3, f"f({long})", "<module>", jump=True), "item", None, number=0.123456789)
    tape.end_step()
    with load(tape.write(tmp_path / "x.plait")) as recording:
        for text in (views.show(recording, width=width), views.show_graph(recording, width=width)):
            body = [line for line in text.split("\n") if not line.startswith(("program", "saved:", "time", "·"))]
            assert max(map(len, body)) <= max(width, 62), max(body, key=len)


def test_colour_adds_nothing_but_colour(recording: Recording) -> None:
    for show in (views.report, views.show, views.show_graph, views.show_source):
        coloured = show(recording, colour=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[\d*m", "", coloured) == show(recording)


def test_json_is_one_versioned_document(recording: Recording) -> None:
    document = json.loads(views.show_json(recording))
    assert (document["format"], document["version"]) == ("plait.show", 1)
    assert document["decisions"][0]["predicate"] == "h.mean() > 0"
    assert document["source"]["/project/model.py"]["5"]["ops"] == 8
    graph = json.loads(views.graph_json(recording, 1))
    assert (graph["format"], graph["version"], graph["step"]["id"]) == ("plait.graph", 1, 1)
    assert [node["op"] for node in graph["nodes"]][-1] == "sum"
    assert graph["sites"][0]["file"] == "/project/model.py"


def test_perfetto_slices_lie_inside_their_loops(recording: Recording) -> None:
    document = json.loads(views.export(recording, "perfetto", 0))
    slices = [event for event in document["traceEvents"] if event["ph"] == "X" and event["tid"] == 2]
    ops = [event for event in slices if event["cat"] == "op"]
    assert len(ops) == 18
    for one, two in pairwise(ops):
        assert two["ts"] == pytest.approx(one["ts"] + one["dur"])
    (over,) = [event for event in slices if event["name"] == "for x in xs"]
    inside = [event for event in ops if over["ts"] <= event["ts"] < over["ts"] + over["dur"]]
    assert len(inside) == 15
    steps = [event for event in document["traceEvents"] if event.get("tid") == 1 and event["ph"] == "X"]
    assert [event["name"] for event in steps] == ["step 0", "step 1"]


def test_dot_and_mermaid_name_every_box_once(recording: Recording) -> None:
    dot = views.export(recording, "dot", 0)
    assert dot.count("{") == dot.count("}") and dot.startswith("digraph plait {")
    names = re.findall(r"^\s*(b\d+) \[label", dot, re.MULTILINE)
    assert len(names) == len(set(names)) == 11
    for start, end in re.findall(r"^\s*(b\d+) -> (b\d+)", dot, re.MULTILINE):
        assert start in names and end in names
    assert 'label="for x in xs\\nx 3"' in dot and "style=dashed" in dot
    mermaid = views.export(recording, "mermaid", 0)
    lines = mermaid.split("\n")
    assert sum(line.strip().startswith("subgraph") for line in lines) == sum(line.strip() == "end" for line in lines)
    assert '{"h.mean() #gt; 0<br/>2x True, 1x False"}' in mermaid
    assert set(re.findall(r"(b\d+)[\[({]", mermaid)) >= set(names)


def test_labels_are_escaped(tmp_path: Path) -> None:
    tape = Tape('y = f(x["a\\\\b"])\n')
    tape.op('we"ird\\', tape.input("data", tape.type(3), 'na"me\\'), out=tape.type(3), site=tape.site(1, "f"))
    tape.end_step()
    with load(tape.write(tmp_path / "x.plait")) as recording:
        dot = views.export(recording, "dot")
        assert 'label="we\\"ird\\\\' in dot
        for label in re.findall(r'label="((?:[^"\\]|\\.)*)"', dot):
            assert '"' not in re.sub(r"\\.", "", label)
        assert "#quot;" in views.export(recording, "mermaid")


def test_a_terminal_that_cannot_write_the_signs() -> None:
    assert views.fit("├─ ↻ for x in xs", "ascii") == "|- @ for x in xs"
    assert views.fit("├─ ↻", "utf-8") == "├─ ↻"


def test_installed_packages_are_a_line_in_the_report(tmp_path: Path) -> None:
    tape = loop_in("/env/lib/site-packages/models/net.py")
    with load(tape.write(tmp_path / "x.plait")) as recording:
        assert "net.py   8 ops, 9 us   (lines: plait show FILE --source)" in views.report(recording)
        assert "def forward(xs):" not in views.report(recording)
        assert "def forward(xs):" in views.show_source(recording)


def loop_in(file: str) -> Tape:
    from handmade import LOOP, loop_step

    tape = Tape(LOOP, file)
    loop_step(tape, [True])
    return tape
