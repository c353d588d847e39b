"""Decisions by place: counts, arms, numbers, margins; also where only a part of the test was read."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handmade import Tape, loop
from plait.decisions import Place, Survey, read_decisions
from plait.recording import load


def places(tape: Tape, path: Path, budget: int = 10_000) -> tuple[Place, ...]:
    with load(tape.write(path / "x.plait")) as recording:
        return read_decisions(Survey(recording), budget)


def test_a_decision_in_a_loop_is_one_place(tmp_path: Path) -> None:
    (place,) = places(loop([[True, False, True], [False], [True, False, True]]), tmp_path)
    assert (place.count, place.predicate, place.decides, place.sampled) == (7, "h.mean() > 0", True, False)
    assert [(arm.outcome, arm.count, arm.line, arm.text) for arm in place.arms] == [
        (True, 4, 6, "h = torch.relu(h)"), (False, 3, 8, "h = torch.tanh(h)"),
    ]  # fmt: skip
    assert place.closest == pytest.approx(0.5 / 3) and place.closest_step == 0
    assert place.first_step == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=12))
def test_counts_are_exact_whatever_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[bool]]
) -> None:
    (place,) = places(loop(rounds), tmp_path_factory.mktemp("x"), budget=3)
    everything = [outcome for outcomes in rounds for outcome in outcomes]
    assert place.count == len(everything)
    assert {arm.outcome: arm.count for arm in place.arms} == {
        outcome: everything.count(outcome) for outcome in (True, False) if outcome in everything
    }
    assert place.sampled == (len(everything) > 3)


NUMBERS = """\
y = x * 2
z = y * 3 if y.item() > 1.5 else y * 4
w = y * 3 if not -1 < y.item() else y
while h.sum().item() > limit:
    h = h - 1
print(loss.item())
if ready and not h.any():
    h = h + 1
"""


def reads(
    numbers: Sequence[float], line: int, expression: str, then: Callable[[Tape, float], None] | None = None
) -> Tape:
    tape = Tape(NUMBERS)
    kind = tape.type()
    for number in numbers:
        x = tape.input("data", kind, "x")
        tape.read(x, tape.site(line, expression, "<module>"), "item", None, number=number)
        if then is not None:
            then(tape, number)
        tape.end_step()
    return tape


def test_item_against_a_number_of_the_source(tmp_path: Path) -> None:
    (place,) = places(reads([2.0, 1.0, 1.75, 1.5], 2, "y.item()"), tmp_path)
    assert place.predicate == "y.item() > 1.5"
    assert [(arm.outcome, arm.count, arm.text) for arm in place.arms] == [(True, 2, "y * 3"), (False, 2, "y * 4")]
    assert place.closest == 0.0 and place.closest_step == 3
    assert place.numbers is not None
    assert (place.numbers.low, place.numbers.mean, place.numbers.high) == (1.0, 1.5625, 2.0)


def test_the_number_may_stand_on_the_left_under_a_not(tmp_path: Path) -> None:
    (place,) = places(reads([2.0, 3.0, -3.0], 3, "y.item()"), tmp_path)
    assert [(arm.outcome, arm.count) for arm in place.arms] == [(True, 1), (False, 2)]


def test_otherwise_what_ran_next_tells_the_arm(tmp_path: Path) -> None:
    def body(tape: Tape, number: float) -> None:
        if number > 0:
            tape.op("__sub__", (-1, 0), out=tape.type(), site=tape.site(5, "h - 1", "<module>"))

    (place,) = places(reads([1.0, -1.0, 3.0], 4, "h.sum().item()", body), tmp_path)
    # Nothing ran after the loop, so only the rounds that happened are known.
    assert [(arm.outcome, arm.count, arm.line) for arm in place.arms] == [(True, 2, 5)]
    assert place.count == 3


def test_a_number_that_decides_nothing(tmp_path: Path) -> None:
    (place,) = places(reads([0.5, 0.25], 6, "loss.item()"), tmp_path)
    assert not place.decides and place.arms == ()
    assert place.predicate == "loss.item()" and place.count == 2


def test_a_negated_part_of_a_test(tmp_path: Path) -> None:
    tape = Tape(NUMBERS)
    for outcome in (True, False, False):
        x = tape.input("data", tape.type(), "x")
        tape.read(x, tape.site(7, "h.any()", "<module>"), "bool", outcome)
        if not outcome:
            tape.op("__add__", x, out=tape.type(), site=tape.site(8, "h + 1", "<module>"))
        tape.end_step()
    (place,) = places(tape, tmp_path)
    # A True makes the `and` False whatever else it asks; after the others something ran in the arm.
    assert [(arm.outcome, arm.count) for arm in place.arms] == [(True, 2), (False, 1)]
    assert place.predicate == "ready and not h.any()"


def test_a_read_without_a_place(tmp_path: Path) -> None:
    tape = Tape()
    x = tape.input("data", tape.type(), "x")
    tape.read(x, None, "bool", True)
    tape.end_step()
    (place,) = places(tape, tmp_path)
    assert place.site is None and place.predicate == "bool"
    assert [(arm.outcome, arm.count, arm.line) for arm in place.arms] == [(True, 1, None)]


def test_nothing_was_read(tmp_path: Path) -> None:
    assert places(Tape(), tmp_path) == ()


def test_two_parts_of_one_test_are_two_places(tmp_path: Path) -> None:
    tape = Tape("if a.all() and b.any():\n    c = a + b\n")
    for first, second in ((True, True), (True, False), (False, None), (True, True)):
        x = tape.input("data", tape.type(), "x")
        tape.read(x, tape.site(1, "a.all()", "<module>"), "bool", first)
        if second is not None:
            tape.read(x, tape.site(1, "b.any()", "<module>"), "bool", second)
        if second:
            tape.op("__add__", x, x, out=tape.type(), site=tape.site(2, "a + b", "<module>"))
        tape.end_step()
    left, right = places(tape, tmp_path)
    assert [(arm.outcome, arm.count) for arm in left.arms] == [(True, 2), (False, 1)]
    assert [(arm.outcome, arm.count) for arm in right.arms] == [(True, 2), (False, 1)]
    assert left.count == 4 and right.count == 3


def test_the_test_of_a_while_is_one_place_though_python_writes_it_twice(tmp_path: Path) -> None:
    tape = Tape("while h.sum() > 0:\n    h = h - 1\n")
    h = tape.input("data", tape.type(), "h")
    for jump, outcome in ((False, True), (True, True), (True, False)):
        tape.read(h, tape.site(1, "h.sum() > 0", "<module>", jump=jump), "bool", outcome, left=1.0, right=0.0)
    tape.end_step()
    (place,) = places(tape, tmp_path)
    assert place.count == 3
    assert [(arm.outcome, arm.count) for arm in place.arms] == [(True, 2), (False, 1)]
