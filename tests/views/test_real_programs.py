"""Views of real recordings: what a person would read about programs that torch ran."""

from __future__ import annotations

import contextlib
import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

import plait
from plait import views
from plait.decisions import Place, Survey, read_decisions, read_programs
from plait.recording import Recording
from recorder.programs import PROGRAMS

Record = Callable[[str], Recording]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Runs a program from a file of its own and gives the recording, read back from disk."""

    def run(source: str) -> Recording:
        script = tmp_path / "program.py"
        script.write_text("import torch\nfrom torch import nn\n" + source)
        with plait.record(tmp_path / "program.plait"):
            runpy.run_path(str(script), run_name="__main__")
        return plait.load(tmp_path / "program.plait")

    return run


def decided(recording: Recording) -> list[tuple[str, dict[bool, tuple[int, str | None]]]]:
    def arms(place: Place) -> dict[bool, tuple[int, str | None]]:
        return {arm.outcome: (arm.count, arm.text) for arm in place.arms}

    return [(place.predicate, arms(place)) for place in read_decisions(Survey(recording)) if place.decides]


def test_every_way_to_ask(record: Record) -> None:
    recording = record("""
x = torch.tensor([1.0, -2.0, 3.0])
for k in range(3):
    if x.any():
        y = x + 1
    if not (x > 5).any():
        y = x + 2
    else:
        y = x + 3
    z = x * 2 if x.sum() > 100 else x * 3
    if k < 2 and x.max() > 0:
        y = x - 1
    if x.min().item() < -1 or k:
        y = x - 2
    assert x[0] == 1
while x[0] < 4:
    x = x + 1
kept = [each * 2 for each in x if each > 2]
""")
    assert decided(recording) == [
        ("x.any()", {True: (3, "y = x + 1")}),
        ("not (x > 5).any()", {True: (3, "y = x + 2")}),
        ("x.sum() > 100", {False: (3, "x * 3")}),
        ("k < 2 and x.max() > 0", {True: (2, "y = x - 1")}),
        ("x.min().item() < -1 or k", {True: (3, "y = x - 2")}),
        ("x[0] == 1", {True: (3, None)}),
        ("x[0] < 4", {True: (3, "x = x + 1"), False: (1, None)}),
        ("each > 2", {True: (2, None), False: (1, None)}),
    ]
    loops = {loop.header: loop.trips for loop in Survey(recording).loops if loop.file.endswith("program.py")}
    assert loops == {"for k in range(3)": (3, 3), "while x[0] < 4": (3, 3), "for each in x": (3, 3)}


def test_a_network_that_decides_at_each_step(record: Record) -> None:
    recording = record("""
torch.manual_seed(0)
cell, head = nn.RNNCell(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)

def run(xs):
    h = torch.zeros(1, 4)
    for x in xs:
        h = cell(x[None], h)
        if h[0, 0] > 0:
            h = torch.relu(h)
        else:
            h = torch.tanh(h)
    return head(h)

for length in (4, 6, 4, 4, 2, 6):
    loss = run(torch.randn(length, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    ((predicate, arms),) = decided(recording)
    assert predicate == "h[0, 0] > 0"
    assert sum(count for count, _ in arms.values()) == 26
    assert arms[True][1] == "h = torch.relu(h)" and arms[False][1] == "h = torch.tanh(h)"
    loops = [loop for loop in Survey(recording).loops if loop.file.endswith("program.py")]
    assert {loop.header: (loop.trips, loop.around) for loop in loops} == {
        "for x in xs": ((2, 6), False), "for length in (4, 6, 4, 4, 2, 6)": (None, True),
    }  # fmt: skip
    trained = [program for program in read_programs(Survey(recording)) if program.kind == "train"]
    assert sum(program.steps for program in trained) == 6
    for program in trained:
        assert {row.parting.kind for row in program.rows if row.parting is not None} <= {"decision", "loop"}
    source = views.show_source(recording)
    assert "for x in xs:   ↻ x 2..6" in source
    assert "loss.backward()   ← 6 backward passes" in source


def test_the_numbers_of_a_backward_walk(record: Record) -> None:
    recording = record("""
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
z = x * y
loss = z.sum()
loss.backward()
""")
    text = views.show_graph(recording)
    for line in (
        "z = mul(x, y)  f32[3]  [4, 10, 18]",
        "loss = sum(z)  f32[]  32",
        "d loss / d loss = 1",
        "d loss / d z    = [1, 1, 1]",
        "d loss / d x    = [4, 5, 6]  x.grad",
        "d loss / d y    = [1, 2, 3]  y.grad",
    ):
        assert line in text, text


def test_what_a_module_is_made_of_does_not_take_its_name(record: Record) -> None:
    recording = record("layer = nn.Linear(3, 2)\ny = layer(torch.ones(1, 3))\n")
    graph = recording.graph_number(recording.steps[0].graph or 0)
    assert "layer" not in {value.name for value in graph.values}
    assert "y" in {value.name for step in recording.steps for value in recording.graph_of(step).values}


def test_recursion_is_shown_once(record: Record) -> None:
    recording = record("""
def total(tree):
    if isinstance(tree, int):
        return torch.full((2,), float(tree))
    left, right = tree
    return total(left) + total(right)

total((((1, 2), 3), (4, 5))).sum()
""")
    text = views.show_graph(recording)
    assert "total  calls itself, 4 deep" in text
    assert "5x $0 = full" in text and "4x " in text and text.count("total again") == 2


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"compiled", "loader_with_workers"}))
def test_every_view_of_every_program(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with plait.record() as recording, contextlib.suppress(Exception):  # some of them end in an error of their own
        PROGRAMS[name]()
    capfd.readouterr()
    for text in (views.show(recording), views.report(recording)):
        assert max(map(len, text.split("\n"))) <= 100
    assert json.loads(views.show_json(recording))["version"] == 1
    for step in recording.steps:
        if step.graph is None:
            continue
        assert recording.graph_of(step).legal() == []
        assert max(map(len, views.show_graph(recording, step.id).split("\n"))) <= 100
        for to in views.EXPORTS:
            if to != "perfetto" or recording.durations(step.graph) is not None:
                assert views.export(recording, to, step.id)


def test_rounds_and_runs_where_one_call_is_several_operations(record: Record) -> None:
    recording = record("""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.cell = nn.LSTM(3, 4), nn.RNNCell(4, 4)

    def forward(self, x, h=None):
        for k in range(5):
            y, _ = self.lstm(x)
        for k in range(6):
            h = self.cell(y[0], h)
        return h

model = Model()
model(torch.ones(2, 1, 3))
model(torch.ones(2, 1, 3))
""")
    with recording:
        loops = [loop.trips for loop in Survey(recording).loops if loop.file.endswith("program.py")]
        assert loops == [(5, 5), (6, 6)]
        source = views.show_source(recording)
    assert "   10    30 " in next(line for line in source.split("\n") if "y, _ = self.lstm(x)" in line)
    assert "   12    26 " in next(line for line in source.split("\n") if "h = self.cell(y[0], h)" in line)
