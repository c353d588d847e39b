"""The page as text: its wire, its policy, what it says about bad input. `tests/web` opens it in a browser."""

import json
import re
import sqlite3
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import plait
from handmade import Tape, loop, product
from plait.graph import Graph
from plait.graph._fold import fold
from plait.graph._marks import Mark
from plait.graph._notation import op_name
from plait.recording import load
from plait.views import page
from plait.views._pack import pack_columns, unpack
from plait.views._page import Pages
from plait.views._wire import FOLD_KINDS, WIRE, WIRE_VERSION, graph_wire
from streams import streams


def chunks(text: str) -> dict[str, object]:
    """The documents that a page holds."""
    return {name: unpack(data) for name, data in re.findall(r'id="chunk-(\w+)">([^<]*)</script>', text)}


def sums(differences: list[int]) -> list[int]:
    found, last = [], 0
    for each in differences:
        last += each
        found.append(last)
    return found


def check_wire(graph: Graph) -> None:
    """The wire says of a graph what the graph says of itself."""
    wire = unpack(pack_columns(graph_wire(graph)))
    assert wire == json.loads(json.dumps(graph_wire(graph)))
    text = wire["text"]
    assert [-1 if n.site is None else n.site for n in graph.nodes] == sums(wire["nodes"]["site"])
    assert [-1 if n.region is None else n.region for n in graph.nodes] == sums(wire["nodes"]["region"])
    assert [v.node for v in graph.values] == sums(wire["values"]["node"])
    assert [-1 if v.grad_fn is None else v.grad_fn for v in graph.values] == sums(wire["values"]["grad_fn"])
    used = iter(wire["nodes"]["input_value"])
    for node, count in zip(graph.nodes, wire["nodes"]["inputs"], strict=True):
        first = node.outputs[0] if node.outputs else 0
        assert [edge.value for edge in node.inputs] == [first - next(used) for _ in range(count)]
        assert node.outputs == tuple(range(first, first + len(node.outputs)))  # the page counts on it
    for value, kind in zip(graph.values, wire["values"]["type"], strict=True):
        dtype, shape, device, grad, leaf = wire["types"][kind]
        assert (value.dtype, list(value.shape), value.device) == (dtype, shape, device)
        assert (value.requires_grad, value.leaf) == (bool(grad), bool(leaf))
    parents = iter(zip(wire["grads"]["parent"], wire["grads"]["parent_input"], strict=True))
    for grad, count in zip(graph.backward_nodes, wire["grads"]["parents"], strict=True):
        read = [next(parents) for _ in range(count)]
        assert grad.parents == tuple(None if n < 0 and b == 0 else (grad.id - b, n) for b, n in read)
    assert [d.value for d in graph.decisions] == sums(wire["decisions"]["value"])
    assert [{None: -1, False: 0, True: 1}[d.outcome] for d in graph.decisions] == wire["decisions"]["outcome"]
    flat, stack = [], [(fold(graph), -1)]
    while stack:
        item, parent = stack.pop()
        stack.extend((child, len(flat)) for child in reversed(item.children))
        flat.append((item, parent))
    begin = 0
    for place, (item, parent) in enumerate(flat):
        columns = wire["fold"]
        count = columns["count"][place]
        assert (FOLD_KINDS[columns["kind"][place]], columns["parent"][place]) == (item.kind, parent)
        assert list(item.members) == sums(columns["members"][begin : begin + count])
        begin += count
        assert columns["low"][place] == (-1 if item.trips is None else item.trips[0])
    assert [text[k] for k in wire["nodes"]["op"]] == [op_name(node.op) for node in graph.nodes]


def test_columns_come_back_however_large_their_numbers_are() -> None:
    for numbers in ([0, -128], [0, 128], [-32769], [2**40, -1], [1, 2.5], [1, None], [], [True], ["1"]):
        document = {"nodes": {"op": numbers}, "text": ["type", {"type": "b"}], "durations": numbers}
        assert unpack(pack_columns(document)) == document


def test_the_wire_holds_a_small_graph(tmp_path: Path) -> None:
    with load(product().write(tmp_path / "run.plait")) as recording:
        check_wire(recording.graph)


def test_the_wire_holds_a_loop(tmp_path: Path) -> None:
    with load(loop([[True, False, True]]).write(tmp_path / "run.plait")) as recording:
        check_wire(recording.graph)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams())
def test_the_wire_holds_any_graph(tape: Tape) -> None:
    check_wire(tape.graph())


def test_a_page_holds_the_run_and_asks_for_nothing(tmp_path: Path) -> None:
    with load(loop([[True, False, True], [True], [True]]).write(tmp_path / "run.plait")) as recording:
        text = page(recording)
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy and "unsafe" not in policy
    assert not re.search(r'(src|href)="(?!data:,)', text.split("<script", 1)[0])
    held = chunks(text)
    head = held["head"]
    assert isinstance(head, dict)
    assert (head["format"], head["version"]) == (WIRE, WIRE_VERSION)
    assert head["steps"]["graph"] == [0, 1, 1]
    assert head["graphs"] == [0, 1] or sorted(head["graphs"]) == [0, 1]
    assert {"g0", "g1", "r0"} <= set(held)
    assert held["r0"][0] == [[True, 0.5, 0.0], [False, -0.25, 0.0], [True, 0.5 / 3, 0.0]]  # type: ignore[index]
    (place,) = head["places"]
    assert place["predicate"] == "h.mean() > 0" and [arm[:2] for arm in place["arms"]] == [[1, 4], [0, 1]]


def test_names_that_look_like_markup_stay_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    tape = product()
    tape.meta["program"] = evil
    tape.file = f"/project/{evil}.py"
    tape.notes.append(("limit", evil))
    tape.end_step()
    with load(tape.write(tmp_path / "run.plait")) as recording:
        text = page(recording)
    assert "alert(1)" not in text.replace("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;", "")


def test_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    tape = Tape("if x.item() > 1: pass\n")
    x = tape.input("data", tape.type(), "x")
    for number in (float("nan"), float("inf"), float("-inf")):
        tape.read(x, tape.site(1, "x.item()", "<module>"), "item", number=number)
    tape.end_step(loss=float("inf"))
    with load(tape.write(tmp_path / "run.plait")) as recording:
        held = chunks(page(recording))
    assert [read[0] for read in held["r0"][0]] == ["nan", "inf", "-inf"]  # type: ignore[index]
    assert held["head"]["steps"]["loss"] == ["inf"]  # type: ignore[index, call-overload]


def test_marks_of_others_reach_the_page(tmp_path: Path) -> None:
    with load(product().write(tmp_path / "run.plait")) as recording:
        mark = Mark("finding", "the sum hides a factor of three", "/project/model.py", 6)
        head = chunks(page(recording, marks=[mark]))["head"]
    assert head["findings"] == [["finding", mark.text, 0, 6]]  # type: ignore[index, call-overload]
    lines = {line[0]: line[5] for line in head["files"][0]["lines"]}  # type: ignore[index, call-overload]
    assert ["finding", mark.text] in lines[6]


def test_a_page_leaves_rarer_graphs_out_and_says_so(tmp_path: Path) -> None:
    tape = loop([[True] * k for k in range(1, 9)])
    with load(tape.write(tmp_path / "run.plait")) as recording:
        head = chunks(page(recording, budget=60, step=3))["head"]
    assert head["start"] == 3 and 3 in head["graphs"]  # type: ignore[index, call-overload]
    assert len(head["graphs"]) < 8  # type: ignore[index, call-overload]
    assert any("--serve" in text for _, text in head["notes"])  # type: ignore[index, call-overload]


def test_an_empty_run_and_a_run_without_sources(tmp_path: Path) -> None:
    with load(Tape().write(tmp_path / "empty.plait")) as recording:
        head = chunks(page(recording))["head"]
    assert head["start"] is None and head["steps"]["graph"] == []  # type: ignore[index, call-overload]
    tape = product()
    path = tape.write(tmp_path / "bare.plait")
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM source")
    connection.commit()
    connection.close()
    with load(path) as recording:
        head = chunks(page(recording))["head"]
    assert head["files"][0]["text"] is None  # type: ignore[index, call-overload]


def test_a_step_that_is_not_there(tmp_path: Path) -> None:
    with load(product().write(tmp_path / "run.plait")) as recording, pytest.raises(plait.PlaitError, match="no step 7"):
        page(recording, step=7)


def test_a_graph_that_cannot_be_read_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with load(loop([[True], [True, True]]).write(tmp_path / "run.plait")) as recording:
        pages = Pages(recording)
        whole = recording.graph_number

        def broken(number: int) -> Graph:
            if number == 1:
                raise IndexError("a row that points outside its graph")
            return whole(number)

        monkeypatch.setattr(recording, "graph_number", broken)
        assert pages.graph(1) is None and pages.graph(0) is not None
        assert any("cannot be read" in text for _, text in pages.head([0])["notes"])


def test_view_is_a_page_in_a_frame_of_its_own(tmp_path: Path) -> None:
    path = product().write(tmp_path / "run.plait")
    shown = plait.view(path)
    cell = shown._repr_html_()
    assert cell.startswith("<iframe") and 'sandbox="allow-scripts allow-downloads"' in cell
    assert "<script" not in cell
    saved = shown.save(tmp_path / "page.html")
    assert chunks(saved.read_text())["head"] == chunks(unescape(cell))["head"]
    assert ".open() shows it" in repr(shown)


def test_the_fixtures_of_the_page_are_current() -> None:
    from web.make_fixture import FOLDER, texts

    for name, text in texts().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, "run python tests/web/make_fixture.py"
