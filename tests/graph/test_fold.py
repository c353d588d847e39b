"""Folding keeps everything, once a place, and lays the arms of a decision in the order of the source."""

from collections import Counter

from hypothesis import given

from handmade import LOOP, Tape, loop
from plait.graph._fold import fold
from plait.graph._marks import Fold
from streams import streams


def everything(root: Fold) -> list[Fold]:
    found, stack = [], [root]
    while stack:
        item = stack.pop()
        found.append(item)
        stack.extend(item.children)
    return found


@given(streams())
def test_nothing_is_lost_and_nothing_is_twice(tape: Tape) -> None:
    graph = tape.graph()
    kept = {"op": Counter(), "decision": Counter(), "backward": Counter(), "mode": Counter()}
    for item in everything(fold(graph)):
        kind = "op" if item.kind == "input" else item.kind
        if kind in kept:
            kept[kind].update(item.members)
    sizes = {"op": graph.nodes, "decision": graph.decisions, "backward": graph.backwards, "mode": graph.modes}
    for kind, table in sizes.items():
        assert kept[kind] == Counter(range(len(table)))


def folded(outcomes: list[bool]) -> list[Fold]:
    tape = loop([outcomes])
    tape.tokens = list(next(iter(tape.graphs)))
    return everything(fold(tape.graph()))


def test_a_loop_is_drawn_once_with_its_trips() -> None:
    found = folded([True, False, False, True, True])
    (over,) = [item for item in found if item.kind == "loop" and item.label == "for x in xs"]
    assert over.trips == (5, 5)
    assert [(item.label, item.count) for item in over.children] == [
        ("unbind", 5), ("__add__", 5), ("mean", 5), ("__gt__", 5), ("bool", 5), ("relu", 3), ("tanh", 2),
    ]  # fmt: skip


def test_what_earlier_steps_made_at_one_place_is_one_fold_under_one_name() -> None:
    tape = Tape("rewards.append(env.step())\nx = torch.ones(1)\n")
    kind, site = tape.type(1), tape.site(1, "env.step()")
    for name, place in (("reward", site), ("x", tape.site(2, "torch.ones(1)")), ("reward", site), ("last", site)):
        tape.input("data", kind, name, place)
    for _ in range(2):
        tape.input("data", kind, "from elsewhere")  # made where nobody saw it: perhaps at two places
    found = [item.members for item in everything(fold(tape.graph())) if item.kind == "input"]
    assert sorted(found) == [(0, 2), (1,), (3,), (4,), (5,)]


def test_the_other_arm_stands_where_the_source_has_it() -> None:
    found = folded([False, True])
    (over,) = [item for item in found if item.kind == "loop" and item.label == "for x in xs"]
    assert [item.label for item in over.children][-2:] == ["relu", "tanh"]


def test_a_function_that_calls_itself_is_shown_once() -> None:
    tape = Tape("def visit(tree):\n    for child in tree:\n        visit(child)\n    return torch.tanh(w)\n")
    kind = tape.type(3)
    w = tape.input("data", kind, "w")

    def visit(depth: int, call: int | None) -> None:
        tape.enter("visit", call, 1)
        for _ in range(2 if depth else 0):
            visit(depth - 1, tape.site(3, "visit(child)", "visit"))
        tape.op("tanh", w, out=kind, site=tape.site(4, "torch.tanh(w)", "visit"))
        tape.leave()

    visit(6, None)
    root = fold(tape.graph())
    found = everything(root)
    (tanh,) = [item for item in found if item.label == "tanh"]
    assert tanh.count == 127
    (frame,) = [item for item in found if item.kind == "frame"]
    assert frame.depth == 7
    (again,) = [item for item in found if item.kind == "again"]
    assert again.count == 126


def test_100_000_operations_without_a_place_fold_quickly_and_deep_frames_do_not_overflow() -> None:
    tape = Tape(LOOP)
    kind = tape.type(2)
    x = tape.input("data", kind, "x")
    for number in range(5_000):
        tape.enter(f"f{number}", None, number)
    for _ in range(100_000):
        tape.op("sin", x, out=kind)
    assert sum(item.count for item in everything(fold(tape.graph())) if item.kind == "op") == 100_000
