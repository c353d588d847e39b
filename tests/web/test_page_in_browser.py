"""The page in a real Chromium: every part opened, folded, searched, linked, by mouse and by keyboard, in both colour
schemes and at two widths; and what it shows is what the recording holds."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from handmade import Tape, loop, product
from plait.graph._fold import fold
from plait.recording import load
from plait.views import page
from web.browser import chromium, missing, open_page, wait
from web.make_fixture import cut

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of hand-made recordings."""
    folder = tmp_path_factory.mktemp("pages")
    tapes = {
        "loop": loop([[True, False, True], [True, True, True], [True, False, True], [False]]),
        "product": product(), "cut": cut(), "empty": Tape(),
    }  # fmt: skip
    tapes["batched"] = loop([[True, False], [True]])
    for name, tape in tapes.items():
        file = tape.write(folder / f"{name}.plait")
        if name == "batched":
            add_batch(file)
        with load(file) as recording:
            (folder / f"{name}.html").write_text(page(recording), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as context:
        yield context


def add_batch(file: Path) -> None:
    """Two batched runs: the groups of the first, and the second as a plain loop. Site 0 is a line of the tape."""
    with sqlite3.connect(file) as connection:
        connection.executemany(
            "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(0, 0, 0, 3, 8, 3, 2, 9_000_000, None, "mean ran in groups of 2", "[[0, 3]]", '[["sort", "<b>no kernel</b>", 2]]'),
             (1, 1, 0, 2, 4, 4, 0, 1_000_000, "it draws random numbers", None, "[]", "[]")],
        )  # fmt: skip
        connection.executemany(
            "INSERT INTO batch_group VALUES (0, ?, ?, ?, ?, ?, ?, ?)",
            [(0, 0, "RNNCell", 3, 5_000_000, "[0, 1, 2]", "[[0, 3]]"), (1, 0, "mean", 2, 2_000_000, "[0, 2]", "[[0, 2]]"),
             (2, 1, "RNNCell", 3, 2_000_000, "[0, 0, 1]", "[[0, 3]]")],
        )  # fmt: skip
        connection.execute(
            "UPDATE row SET body = json_set(body, '$[0]', 'BatchNode', '$[1]', 0)"
            " WHERE kind = 'op' AND json_extract(body, '$[0]') = '__getitem__'"
        )
        connection.executemany("INSERT INTO batch_flush VALUES (0, ?, ?, ?)", [(0, 0, 3), (1, None, 2)])
    connection.close()


def boxes(tab: Any) -> dict[str, str]:
    """Title of every box in sight -> its id."""
    found: dict[str, str] = tab.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.box')].map("
        "b => [b.querySelector('.title')?.textContent ?? '', b.dataset.id]))"
    )
    return found


# -- what it shows is true --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loop", "product", "cut"])
def test_the_graph_of_the_page_is_that_of_the_recording(browser: Any, folder: Path, name: str) -> None:
    tab = open_page(browser, folder / f"{name}.html")
    with load(folder / f"{name}.plait") as recording:
        for step in recording.steps:
            graph = recording.graph_of(step)
            read = json.loads(
                tab.evaluate(
                    """async (step) => {
                      const store = plaitPage.store, g = await store.stepGraph(step);
                      const reads = await store.readings(step), made = g.wire.decisions;
                      const each = (n, f) => Array.from({length: n}, (_, k) => f(k));
                      return JSON.stringify({
                        nodes: each(g.size, n => [g.op(n), g.isInput(n), g.outputsOf(n), g.site[n],
                                                  g.cut(n), g.argumentsOf(n)]),
                        edges: each(g.size, n => [...g.inputs(n)].map((v, k) => [v, g.position(n, k)])),
                        values: each(g.valueNode.length, v => [g.valueNode[v], g.typeText(v), g.valueName(v),
                                                               g.valueGrad[v]]),
                        decisions: each(made.how.length, d => [g.decisionValue[d], made.outcome[d]]),
                        reads: reads.map(r => r.value),
                      });
                    }""",
                    step.id,
                )
            )
            from plait.graph._notation import op_name, value_name, value_type

            assert read["nodes"] == [
                [op_name(n.op), n.kind == "input", list(n.outputs), -1 if n.site is None else n.site,
                 n.cut or "", n.arguments]
                for n in graph.nodes
            ]  # fmt: skip
            assert read["edges"] == [[[e.value, e.position] for e in n.inputs] for n in graph.nodes]
            assert read["values"] == [
                [v.node, value_type(v), value_name(graph, v), -1 if v.grad_fn is None else v.grad_fn]
                for v in graph.values
            ]
            assert read["decisions"] == [[d.value, {None: -1, False: 0, True: 1}[d.outcome]] for d in graph.decisions]
            assert read["reads"] == [r.value for r in step.reads]
    tab.close()


@pytest.mark.parametrize("step", [0, 1, 3])
def test_the_boxes_are_the_folds_of_the_recording(browser: Any, folder: Path, step: int) -> None:
    tab = open_page(browser, folder / "loop.html", f"#view=graph&step={step}&read=1&held=1")
    tab.get_by_role("button", name="open all").click()
    tab.get_by_role("button", name="fit", exact=True).click()
    tab.wait_for_timeout(200)
    with load(folder / "loop.plait") as recording:
        graph = recording.graph_of(step)
    counts: dict[str, int] = {}
    stack = [fold(graph)]
    while stack:
        item = stack.pop()
        stack.extend(item.children)
        if item.kind in ("op", "input", "decision", "backward"):
            counts[item.kind] = counts.get(item.kind, 0) + item.count
    shown: dict[str, int] = {}
    for kind, count in tab.evaluate(
        "() => [...document.querySelectorAll('.box')].map(b => [b.dataset.kind, Number(b.dataset.count)])"
    ):
        shown[kind] = shown.get(kind, 0) + count
    for kind, count in counts.items():
        assert shown.get(kind, 0) == count, kind
    # Every drawn arrow is an edge between nodes of the two folds, and every edge is drawn.
    drawn = set(map(tuple, tab.evaluate(
        "() => [...document.querySelectorAll('.edge.flow, .edge.back')]"
        ".map(e => [e.dataset.from, e.dataset.to])")))  # fmt: skip
    fold_of = tab.evaluate("async (step) => [...(await plaitPage.store.stepGraph(step)).foldOfNode]", step)
    wanted = {
        (f"f{fold_of[graph.values[edge.value].node]}", f"f{fold_of[node.id]}")
        for node in graph.nodes
        for edge in node.inputs
    }
    assert drawn == {pair for pair in wanted if pair[0] != pair[1]}
    outcomes = [graph.decisions[k].outcome for k in range(len(graph.decisions))]
    text = tab.locator(".box.decision").first.text_content()
    if len(outcomes) > 1:
        for outcome in (True, False):
            assert (f"{outcomes.count(outcome)}x {outcome}" in text) == (outcome in outcomes)
    else:
        assert str(outcomes[0]) in text
    tab.close()


STRUCK_THROUGH = """() => {
  const arrows = [...document.querySelectorAll('.edge')];
  return [...document.querySelectorAll('.box.open .title')].filter(title => {
    const words = title.getBBox(), box = title.closest('.box').transform.baseVal[0].matrix;
    const at = x => new DOMPoint(box.e + words.x + x, box.f + words.y + words.height / 2);
    return Array.from({ length: Math.floor(words.width) }, (_, x) => at(x))
      .some(point => arrows.some(arrow => arrow.isPointInStroke(point)));
  }).map(title => title.textContent);
}"""


def test_no_arrow_strikes_a_title_through(browser: Any, tmp_path: Path) -> None:
    tape = Tape()
    kind = tape.type(3)
    x = tape.input("data", kind, "x")
    tape.enter("a_name_that_is_wider_than_its_group")
    relu = tape.op("relu", x, out=kind)
    tanh = tape.op("tanh", tape.to(relu), out=kind)
    tape.leave()
    tape.op("sum", tape.to(tanh), out=tape.type())
    tape.end_step("forward")
    with load(tape.write(tmp_path / "run.plait")) as recording:
        (tmp_path / "page.html").write_text(page(recording), encoding="utf-8")
    tab = open_page(browser, tmp_path / "page.html", "#view=graph")
    tab.get_by_role("button", name="open all").click()
    wait(tab, "document.querySelector('.box.open .title')?.textContent.startsWith('a_name')")
    assert tab.evaluate(STRUCK_THROUGH) == []
    # It still leads all the way from its box into the group.
    assert tab.evaluate("document.querySelectorAll('.edge.flow').length") == 3
    tab.close()


# -- every part -------------------------------------------------------------------------------------------------


def test_run_shows_steps_decisions_and_variants(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=run")
    assert "4 training steps" in tab.locator("#part-run").inner_text()
    assert "h.mean() > 0" in tab.locator("#part-run table").first.inner_text()
    tab.locator(".cursor").focus()
    tab.keyboard.press("Home")
    wait(tab, "location.hash.includes('step=0')")
    canvas = tab.locator("canvas.strips").bounding_box()
    tab.mouse.click(canvas["x"] + canvas["width"] * 0.9, canvas["y"] + 30)
    wait(tab, "location.hash.includes('step=3')")
    tab.get_by_role("button", name="graph of this step").click()
    wait(tab, "document.querySelector('.box.decision') !== null")
    tab.close()


def test_a_loss_that_is_no_number_stands_out(browser: Any, tmp_path: Path) -> None:
    tape = Tape()
    for loss in (2.0, 1.0, float("nan"), 1.0, None):
        tape.op("zeros", out=tape.type(3))
        tape.end_step(loss="nan" if loss is not None and loss != loss else loss)
    with load(tape.write(tmp_path / "run.plait")) as recording:
        (tmp_path / "page.html").write_text(page(recording), encoding="utf-8")
    tab = open_page(browser, tmp_path / "page.html", "#view=run&step=2")
    assert "loss nan" in tab.locator("#part-run").inner_text()
    tab.wait_for_timeout(200)
    red = tab.evaluate(
        """() => {
          const canvas = document.querySelector('canvas.strips'), pen = canvas.getContext('2d');
          const { data, width } = pen.getImageData(0, 0, canvas.width, canvas.height);
          const columns = new Set();
          for (let k = 0; k < data.length; k += 4) {
            if (data[k] === 179 && data[k + 1] === 38 && data[k + 2] === 30) columns.add(Math.floor(((k / 4) % width) * 5 / width));
          }
          return [...columns];
        }"""
    )
    assert red == [2]
    tab.close()


def test_source_and_graph_lead_to_each_other(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=source")
    row = tab.locator('tr[data-line="5"]')
    assert "3" in row.inner_text() and "if h.mean() > 0:" in row.inner_text()
    row.get_by_role("button", name="5", exact=True).click()
    wait(tab, "document.querySelectorAll('.box.on-line').length >= 3")
    assert "h.mean() > 0" in tab.locator(".box.decision.on-line").first.text_content()
    tab.locator(".box.decision").first.click()
    tab.locator(".panel").get_by_role("button", name="model.py:5").first.click()
    wait(tab, "document.querySelector('tr.chosen')?.dataset.line === '5'")
    tab.close()


def test_a_loop_shows_one_round_alone(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=graph&step=0")
    wait(tab, "document.querySelector('.box.decision') !== null")
    assert "2x True, 1x False" in tab.locator(".box.decision").text_content()
    tab.locator(".box.decision").click()
    tab.locator(".rounds input").fill("2")
    tab.locator(".rounds input").dispatch_event("change")
    wait(tab, "document.querySelector('.box.decision').textContent.includes('-0.25')")
    assert tab.locator(".box.faint").count() >= 1
    tab.reload()
    tab.wait_for_selector(".box.decision")
    assert "-0.25" in tab.locator(".box.decision").text_content()
    tab.close()


def test_folding_and_opening(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=graph&step=0")
    wait(tab, "document.querySelector('.box.decision') !== null")
    tab.get_by_role("button", name="fold", exact=True).click()
    wait(tab, "document.querySelector('.box.decision') === null")
    first = tab.locator('.box[aria-expanded="false"]').first
    first.locator(".sign").click()
    wait(tab, "document.querySelector('.box[aria-expanded=\"true\"]') !== null")
    tab.close()


def test_search_leads_to_a_node(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=run&step=0")
    tab.keyboard.press("/")
    tab.keyboard.type("tanh")
    tab.wait_for_selector("#search-results li")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    wait(tab, "document.querySelector('.box.selected .title')?.textContent.includes('tanh')")
    assert "torch.tanh(h)" in tab.locator(".panel").inner_text()
    tab.keyboard.press("ArrowUp")  # goes on in the picture, not in the field
    wait(tab, "!document.querySelector('.box.selected .title')?.textContent.includes('tanh')")
    tab.close()


def test_a_deep_link_opens_at_its_node(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#step=0&node=4")
    wait(tab, "document.querySelector('.box.selected') !== null")
    assert "$4" in tab.locator(".panel").inner_text()
    tab.close()


def test_where_the_gradient_stops(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "cut.html", "#view=graph&overlay=gradient")
    wait(tab, "document.querySelectorAll('.box').length > 3")
    tab.locator(f'.box[data-id="{boxes(tab)["h = mul"]}"]').first.click()
    found = tab.locator(".reach")
    tab.wait_for_selector(".reach.no")
    assert "detach" in found.inner_text()
    wait(tab, "document.querySelector('.box.stop') !== null")
    assert tab.locator(".edge.cut").count() == 1
    tab.locator(f'.box[data-id="{boxes(tab)["w"]}"]').click()
    tab.wait_for_selector(".reach.yes")
    tab.close()


def test_ancestors_and_descendants(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "product.html", "#view=graph&node=2")
    wait(tab, "document.querySelector('.box.selected') !== null")
    tab.keyboard.press("a")
    wait(tab, "document.querySelectorAll('.box.dim').length > 0")
    lit = tab.locator(".box:not(.dim) .title").all_text_contents()
    assert sorted(lit) == ["x", "y", "z = mul"]
    tab.close()


def test_diff_begins_with_the_divergence(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=diff&step=0&other=1")
    tab.wait_for_selector(".sides")
    text = tab.locator("#part-diff").inner_text()
    assert "fell differently" in text and "model.py:5" in text
    assert "did not run" in text  # tanh in step 1
    tab.locator("#part-diff").get_by_role("button", name="in the graph").first.click()
    wait(tab, "document.querySelector('.box.selected') !== null")
    tab.close()


def test_two_files_begin_with_where_they_part(browser: Any, tmp_path: Path) -> None:
    rounds = {"before": [[True], [True, False]], "after": [[True], [True, True, True]]}
    for name, each in rounds.items():
        loop(each).write(tmp_path / f"{name}.plait")
    plait.view(tmp_path / "before.plait", tmp_path / "after.plait").save(tmp_path / "page.html")
    tab = open_page(browser, tmp_path / "page.html")
    text = tab.locator("#part-diff").inner_text()
    assert "part ways" in text and "model.py:5" in text and "They part in step 1" in text
    assert text.index("a: ") < text.index("b: ") < text.index("Two steps of this run")
    assert tab.locator(".contrast .snippet mark").count() == 2
    tab.locator(".contrast").get_by_role("button", name="in the graph").click()
    wait(tab, "document.querySelectorAll('.box.on-line').length > 0")
    assert "step=1" in tab.evaluate("location.hash")
    tab.close()


def test_the_ranks_of_one_job_side_by_side(browser: Any, tmp_path: Path) -> None:
    files = [tmp_path / f"run.rank{rank}.plait" for rank in range(3)]
    for rank, file in enumerate(files):
        loop([[True], [rank != 1]]).write(file)
    plait.view(*files).save(tmp_path / "page.html")
    tab = open_page(browser, tmp_path / "page.html")
    text = tab.locator(".contrast").inner_text()
    assert "The ranks part in step 1" in text
    assert tab.locator(".contrast .side h3").all_text_contents() == [f"rank {rank}, step 1" for rank in range(3)]
    tab.close()


def test_the_box_of_a_batched_run_leads_to_its_groups(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "batched.html", "#view=graph&step=0")
    box = tab.locator(".box", has_text="3 examples in 3 groups").first
    assert "batched run" in box.text_content()
    box.dispatch_event("click")
    tab.get_by_role("button", name="3 examples, 8 calls in 3 groups").click()
    wait(tab, "document.querySelector('#part-batch').innerText.includes('Group 0: RNNCell')")
    tab.close()


def test_batched_runs_show_their_groups(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "batched.html", "#view=batch")
    part = tab.locator("#part-batch")
    wait(tab, "document.querySelector('#part-batch canvas') !== null")
    text = part.inner_text()
    assert "12 calls of 5 examples ran in 7 groups" in text and "mean ran in groups of 2" in text
    assert "Group 0: RNNCell" in text and "3 examples waited for a value" in text
    assert "<b>no kernel</b>" in text
    tab.keyboard.press("ArrowRight")
    wait(tab, "document.querySelector('#part-batch').innerText.includes('Group 1: mean')")
    assert "group=1" in tab.evaluate("location.hash")
    tab.keyboard.press("ArrowRight")
    wait(tab, "document.querySelector('#part-batch').innerText.includes('all examples had returned')")
    part.locator("select").select_option("1")
    wait(tab, "document.querySelector('#part-batch').innerText.includes('plain loop: it draws random numbers')")
    part.get_by_role("button", name="model.py").first.click()
    wait(tab, "document.querySelector('tr.chosen') !== null")
    tab.close()


def test_the_picture_as_svg_and_png(browser: Any, folder: Path, tmp_path: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=graph&step=0")
    wait(tab, "document.querySelector('.box.decision') !== null")
    with tab.expect_download() as svg:
        tab.get_by_role("button", name="SVG").click()
    svg.value.save_as(tmp_path / "graph.svg")
    text = (tmp_path / "graph.svg").read_text()
    assert "h.mean() &gt; 0" in text and "var(--" not in text
    with tab.expect_download() as png:
        tab.get_by_role("button", name="PNG").click()
    png.value.save_as(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    tab.close()


# -- keyboard alone, both schemes, both widths ------------------------------------------------------------------


def test_with_the_keyboard_alone(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "loop.html", "#view=run&step=0")
    tab.keyboard.press("3")
    wait(tab, "document.querySelector('.box.decision') !== null")
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.matches('svg.picture')"):
            break
    else:
        pytest.fail("the picture cannot be reached with Tab")
    tab.keyboard.press("ArrowDown")
    wait(tab, "document.activeElement.matches('.box.selected')")
    before = tab.evaluate("document.activeElement.dataset.id")
    tab.keyboard.press("ArrowDown")
    wait(tab, f"document.activeElement.matches('.box.selected') && document.activeElement.dataset.id !== '{before}'")
    for _ in range(12):
        if tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true":
            break
        tab.keyboard.press("ArrowDown")
        tab.wait_for_timeout(80)
    was = tab.locator(".box").count()
    tab.keyboard.press("Enter")
    wait(tab, f"document.querySelectorAll('.box').length !== {was}")
    tab.keyboard.press("Escape")
    wait(tab, "document.querySelector('.box.selected') === null")
    tab.keyboard.press(".")
    wait(tab, "location.hash.includes('step=1')")
    tab.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_no_serious_accessibility_fault(folder: Path, width: int, dark: bool) -> None:
    axe = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed (npm ci in web/)")
    with chromium(width, 800, dark) as context:
        for state in (
            "#view=run",
            "#view=source",
            "#view=graph&step=0",
            "#view=graph&step=0&node=4",
            "#view=diff&step=0&other=1",
            "#view=batch",
        ):
            tab = open_page(context, folder / ("batched.html" if "batch" in state else "loop.html"), state)
            tab.wait_for_timeout(300)
            tab.evaluate(axe.read_text(encoding="utf-8"))
            result = tab.evaluate("() => axe.run()")
            bad = [
                (each["id"], each["nodes"][0]["html"][:160], each["nodes"][0].get("failureSummary", "")[:200])
                for each in result["violations"]
                if each["impact"] in ("serious", "critical")
            ]
            assert not bad, (state, bad)
            tab.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window(folder: Path, width: int, dark: bool) -> None:
    with chromium(width, 800, dark) as context:
        for view in ("run", "source", "graph", "diff", "batch"):
            tab = open_page(context, folder / "batched.html", f"#view={view}&step=0")
            tab.wait_for_timeout(150)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, view
            tab.close()
        assert context.faults == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in context.requests)


# -- names that look like markup --------------------------------------------------------------------------------


def test_nothing_in_a_recording_runs(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script></script>"
    tape = Tape(f"y = f(x)  # {evil}\n", f"/project/{evil}.py")
    tape.meta["program"] = evil
    tape.notes.append(("limit", evil))
    x = tape.input("data", tape.type(3), evil)
    tape.enter(evil, None, 1)
    y = tape.op(evil, x, out=tape.type(3, leaf=False), site=tape.site(1, f"f(x)  # {evil}", evil), constants=evil,
                scope=tape.scope(evil, evil), cut=evil)  # fmt: skip
    tape.read(tape.to(y), tape.site(1, "f(x)", evil), "bool", True, evil)
    tape.end_step()
    tape.end_step()
    with load(tape.write(tmp_path / "run.plait")) as recording:
        (tmp_path / "page.html").write_text(page(recording), encoding="utf-8")
    for state in (
        "#view=run",
        "#view=source",
        "#view=graph&step=0&node=1",
        "#view=graph&step=0&read=1",
        "#view=diff&step=0&other=1",
    ):
        tab = open_page(browser, tmp_path / "page.html", state)
        tab.wait_for_timeout(200)
        assert tab.title().startswith("<img"), state
        assert tab.locator("img").count() == 0
        tab.close()


# -- bad input --------------------------------------------------------------------------------------------------


def test_an_empty_run_says_so(browser: Any, folder: Path) -> None:
    tab = open_page(browser, folder / "empty.html")
    assert "Nothing was computed" in tab.locator("#part-run").inner_text()
    tab.keyboard.press("3")
    tab.wait_for_selector(".canvas .told:visible")
    assert "Nothing was computed" in tab.locator(".canvas .told").inner_text()
    assert not tab.get_by_role("button", name="open all").is_visible()
    for key in ("ArrowDown", "Enter", "a", "]", "0"):
        tab.keyboard.press(key)
    assert tab.locator("#part-graph svg.picture").is_hidden()
    tab.close()


def test_a_graph_with_one_node(browser: Any, tmp_path: Path) -> None:
    tape = Tape()
    tape.op("zeros", out=tape.type(3))
    tape.end_step("rest")
    with load(tape.write(tmp_path / "run.plait")) as recording:
        (tmp_path / "page.html").write_text(page(recording), encoding="utf-8")
    tab = open_page(browser, tmp_path / "page.html", "#view=graph")
    wait(tab, "document.querySelectorAll('.box').length === 1")
    tab.locator(".box").click()
    assert "not known" in tab.locator(".panel").inner_text()
    tab.close()


def test_a_graph_that_the_page_does_not_carry(browser: Any, tmp_path: Path) -> None:
    with load(loop([[True] * k for k in range(1, 9)]).write(tmp_path / "run.plait")) as recording:
        (tmp_path / "page.html").write_text(page(recording, budget=60, step=3), encoding="utf-8")
    tab = open_page(browser, tmp_path / "page.html", "#view=graph&step=6")
    tab.wait_for_selector(".canvas .told:visible")
    assert "--serve" in tab.locator(".canvas .told").inner_text()
    tab.keyboard.press("1")
    assert "--serve" in tab.locator("#part-run").inner_text()
    tab.close()


# -- served -----------------------------------------------------------------------------------------------------


def test_served_it_asks_for_what_it_shows(browser: Any, tmp_path: Path) -> None:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from plait.views._serve import Server

    with load(loop([[True], [True, False]]).write(tmp_path / "run.plait")) as recording, Server(recording) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            tab = open_page(browser, server.url, "#view=graph&step=1")
            wait(tab, "document.querySelector('.box.decision') !== null")
            assert "1x True, 1x False" in tab.locator(".box.decision").text_content()
            tab.close()
            base = server.url.rsplit("/", 2)[0]
            for address in (
                f"{base}/",
                f"{base}/wrong-token/",
                f"{server.url}chunk/../../etc/passwd",
                f"{server.url}chunk/g99",
            ):
                with pytest.raises(HTTPError, match="404"):
                    urlopen(address)
            with pytest.raises(HTTPError, match="404"):
                urlopen(Request(server.url, headers={"Host": "elsewhere.example"}))
            with pytest.raises(HTTPError, match="501"):
                urlopen(Request(server.url, method="POST", data=b""))
        finally:
            server.shutdown()
