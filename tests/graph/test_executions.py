"""Where one execution of a place ends and the next begins."""

from hypothesis import given
from hypothesis import strategies as st

from handmade import Tape
from plait.graph._executions import executions
from plait.graph._rows import EnterRow


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4, unique=True), st.integers(1, 6))
def test_executions_of_different_operations_are_counted(operations: list[str], rounds: int) -> None:
    found = executions([(1, key, 0) for _ in range(rounds) for key in operations])
    assert 1 + sum(same is False for same in found.values()) == rounds
    assert None not in found.values()


def test_what_does_not_repeat_is_unclear() -> None:
    assert executions([(1, key, 0) for key in "abcbc"]) == {1: None, 2: None, 3: None, 4: None}


def test_another_place_between_ends_an_execution() -> None:
    assert executions([(1, "a", 0), (2, "b", 0), (1, "a", 0)]) == {}


def test_what_happens_in_a_function_called_there_is_no_part_of_it() -> None:
    model = [(1, "first", 1), (5, "relu", 0), (None, None, -1), (1, "second", 1), (6, "tanh", 0), (None, None, -1)]
    assert executions(model * 2) == {3: True, 6: False, 9: True}


def test_a_loop_around_one_call_of_several_operations() -> None:
    tape = Tape("for k in range(5):\n    y, _ = lstm(x)\n")
    kind = tape.type(2)
    tape.row(EnterRow("<module>", None, 1))
    for _ in range(5):
        for op in ("zeros", "zeros", "lstm"):
            tape.op(op, out=kind, site=tape.site(2, "lstm(x)", "<module>"))
    graph = tape.graph()
    (loop,) = [region for region in graph.regions if region.kind == "loop"]
    assert loop.trips == 5
    assert len({node.region for node in graph.nodes}) == 5
    assert graph.legal() == []


def test_rounds_that_cannot_be_told_are_unknown() -> None:
    tape = Tape("for k in range(5):\n    y = f(x)\n")
    kind = tape.type(2)
    tape.row(EnterRow("<module>", None, 1))
    for op in "abbab":
        tape.op(op, out=kind, site=tape.site(2, "f(x)", "<module>"))
    (loop,) = [region for region in tape.graph().regions if region.kind == "loop"]
    assert loop.trips is None
