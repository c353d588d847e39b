"""Programs and variants: sizes, rounds, and where two of them part."""

from pathlib import Path

from handmade import Tape, loop, loop_step
from plait.decisions import Program, Survey, read_programs
from plait.recording import load


def programs(tape: Tape, path: Path) -> tuple[Program, ...]:
    with load(tape.write(path / "x.plait")) as recording:
        return read_programs(Survey(recording))


def partings(tape: Tape, path: Path) -> list[tuple[str, int | None, str, str]]:
    (program,) = programs(tape, path)
    found = [row.parting for row in program.rows]
    assert found[0] is None
    return [
        (each.kind, each.site.line if each.site else None, each.here, each.there)
        for each in found[1:]
        if each is not None
    ]


def test_variants_of_one_program(tmp_path: Path) -> None:
    (program,) = programs(loop([[True], [True], [True, False], [False] * 4]), tmp_path)
    assert (program.steps, program.graphs, program.first_step, program.kind) == (4, 3, 0, "train")
    assert program.operations == (8, 23) and program.decisions == (1, 4)
    assert program.sizes == "xs f32[1..4, 5]" and program.trips == "x 1..4"
    assert [(row.variant.steps, row.sizes, row.trips) for row in program.rows] == [
        (2, "xs f32[1, 5]", "x 1"), (1, "xs f32[2, 5]", "x 2"), (1, "xs f32[4, 5]", "x 4"),
    ]  # fmt: skip


def test_they_part_at_a_decision(tmp_path: Path) -> None:
    tape = loop([[True, True], [True, True], [True, False], [False, True]])
    assert partings(tape, tmp_path) == [("decision", 5, "False", "True"), ("decision", 5, "False", "True")]


def test_they_part_where_a_loop_ends(tmp_path: Path) -> None:
    tape = loop([[True, False], [True, False], [True], [True, False, False]])
    assert partings(tape, tmp_path) == [("loop", 3, "ends", ""), ("loop", 3, "goes on", "")]


def test_a_loop_that_calls_functions_still_tells(tmp_path: Path) -> None:
    tape = Tape("def run(xs):\n    for x in xs:\n        step(x)\n\ndef step(x):\n    return x + 1\n")
    kind = tape.type(2)
    for rounds in (2, 2, 3):
        tape.enter("run", None, 1)
        x = tape.input("data", kind, "x")
        for _ in range(rounds):
            tape.enter("step", tape.site(3, "step(x)", "run"), 5)
            tape.op("__add__", x, out=kind, site=tape.site(6, "x + 1", "step"))
            tape.leave()
        tape.end_step()
    assert partings(tape, tmp_path) == [("loop", 2, "goes on", "")]


def test_they_part_only_in_sizes(tmp_path: Path) -> None:
    tape = loop([[True]])
    loop_step(tape, [True], width=7)
    assert partings(tape, tmp_path) == [("size", None, "f32[1, 7]", "f32[1, 5]")]


def test_they_part_at_another_operation(tmp_path: Path) -> None:
    tape = Tape("a = f(x)\nb = g(x)\n")
    kind = tape.type(2)
    for expression, line in (("f(x)", 1), ("f(x)", 1), ("g(x)", 2)):
        x = tape.input("data", kind, "x")
        tape.op(expression[0], x, out=kind, site=tape.site(line, expression, "<module>"))
        tape.end_step()
    assert partings(tape, tmp_path) == [("op", 2, "g in line 2", "f in line 1")]


def test_they_part_where_one_ends(tmp_path: Path) -> None:
    tape = Tape("a = f(x)\nb = g(x)\n")
    kind = tape.type(2)
    for count in (1, 1, 2):
        x = tape.input("data", kind, "x")
        for expression, line in (("f(x)", 1), ("g(x)", 2))[:count]:
            tape.op(expression[0], x, out=kind, site=tape.site(line, expression, "<module>"))
        tape.end_step()
    assert partings(tape, tmp_path) == [("op", 2, "g in line 2", "ends")]


def test_a_number_that_decides_parts_them(tmp_path: Path) -> None:
    tape = Tape("z = y * 3 if y.item() > 1.5 else y * 4\n")
    kind = tape.type()
    for arm in ("y * 3", "y * 3", "y * 4"):
        y = tape.input("data", kind, "y")
        tape.read(y, tape.site(1, "y.item()", "<module>"), "item", None, number=1.0)
        tape.op("__mul__", y, out=kind, site=tape.site(1, arm, "<module>"), constants=arm[-1])
        tape.end_step()
    ((kind_, line, _, _),) = partings(tape, tmp_path)
    assert (kind_, line) == ("decision", 1)


def test_sizes_are_what_enters_the_model(tmp_path: Path) -> None:
    tape = Tape("windows = stack(days)\nlevel = windows.mean()\n")
    model = tape.scope("", "Model")
    for batch in (3, 8):
        days = tape.input("data", tape.type(100, 4), "days")
        weight = tape.input("parameter", tape.type(4, 4), "weight")
        stacked = tape.op("stack", days, out=tape.type(batch, 10), site=tape.site(1, "stack(days)", "<module>"))
        tape.op("linear", weight, tape.to(stacked), out=tape.type(batch), scope=model)
        tape.end_step()
    (program,) = programs(tape, tmp_path)
    assert program.sizes == "windows f32[3..8, 10]"


def test_loops_around_the_steps_have_no_rounds(tmp_path: Path) -> None:
    with load(loop([[True], [False], [True]]).write(tmp_path / "x.plait")) as recording:
        loops = {each.header: each for each in Survey(recording).loops}
    assert loops["for x in xs"].trips == (1, 1) and not loops["for x in xs"].around
    assert loops["for xs in data"].around and loops["for xs in data"].trips is None


def test_a_loop_that_the_run_ends_in_is_not_around(tmp_path: Path) -> None:
    tape = Tape("for x in xs:\n    y = x + 1\n")
    kind = tape.type(2)
    tape.enter("<module>")
    x = tape.input("data", kind, "x")
    for _ in range(3):
        tape.op("__add__", x, out=kind, site=tape.site(2, "x + 1", "<module>"))
    tape.end_step("rest")
    with load(tape.write(tmp_path / "x.plait")) as recording:
        (found,) = Survey(recording).loops
    assert found.trips == (3, 3)


def test_a_budget_reads_the_frequent_and_the_extreme_graphs(tmp_path: Path) -> None:
    rounds = [[True] * n for n in range(1, 30)] + [[True, False]] * 5
    with load(loop(rounds).write(tmp_path / "x.plait")) as recording:
        survey = Survey(recording, budget=10)
        assert not survey.complete
        (program,) = read_programs(survey)
        assert program.read < program.graphs == 30
        assert program.trips == "x 1..29"
        assert program.rows[0].variant.steps == 5
        assert Survey(recording).complete
