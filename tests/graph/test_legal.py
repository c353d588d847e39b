"""What rows can say is legal; every rule of the table catches the graph that breaks it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from handmade import Tape, loop, product
from plait.graph import Graph
from plait.graph._legal import RULES, problems
from plait.graph._model import BackwardNode, Edge, Region, Saved
from streams import streams


@given(streams())
def test_what_the_builder_makes_is_legal(tape: Tape) -> None:
    assert tape.graph().legal() == []


def test_hand_made_recordings_are_legal() -> None:
    for tape in (product(), loop([[True, False], [False]])):
        for tokens in tape.graphs:
            tape.tokens = list(tokens)
            assert tape.graph().legal() == []


def whole() -> Graph:
    """A graph with something of everything."""
    tape = loop([])
    from handmade import loop_step

    kept: list[list[int]] = []
    tape.end_step = lambda **_: kept.append(list(tape.tokens)) or 0  # type: ignore[method-assign,func-returns-value]
    loop_step(tape, [True, False])
    vector = tape.type(3, grad=True)
    x = tape.input("leaf", vector, "x")
    from plait.graph._rows import ParentRow

    made = tape.type(3, grad=True, leaf=False)
    backward = (("SinBackward0", (ParentRow("leaf", *x, 0),)),)
    z = tape.op("sin", x, out=made, backward=backward, saved=(("self", "argument", 0, 12),))
    tape.op("mul_", tape.to(z), out=tape.type(3, grad=True, leaf=False), writes=(0,), bases=(0,))
    tape.event("optimizer", "SGD")
    return tape.graph()


def change(table: str, place: int, **fields: Any) -> Any:
    def broken(graph: Graph) -> Graph:
        items = list(getattr(graph, table))
        items[place] = replace(items[place], **fields)
        return replace(graph, **{table: tuple(items)})

    return broken


BROKEN = {
    "ids": change("nodes", 1, id=7),
    "outputs": change("values", 2, output=1),
    "edges": change("nodes", 1, inputs=(Edge(5, "0"),)),
    "inputs": change("nodes", 0, writes=(0,)),
    "positions": change("nodes", 3, inputs=(Edge(1, "0"), Edge(2, "0"))),
    "versions": change("values", 3, version=4),
    "bases": change("values", 1, base=1),
    "grad_fns": change("values", 1, grad_fn=99),
    "backward-nodes": change("nodes", -2, backward=()),
    "parents": change("backward_nodes", 0, parents=((12, 0),)),
    "writes": change("nodes", 2, writes=(3,)),
    "saved": change("nodes", 1, saved=(Saved("self", 99, 1),)),
    "moments": change("decisions", 0, after=99),
    "existing": change("decisions", 0, value=17),
    "outcomes": change("decisions", 0, outcome=None),
    "regions": change("regions", 2, parent=None),
    "references": change("nodes", 1, site=999),
}


def test_the_whole_graph_is_legal() -> None:
    assert problems(whole()) == []


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_catches_what_breaks_it(name: str) -> None:
    broken = BROKEN[name](whole())
    found = problems(broken)
    assert any(sentence.startswith(f"{name}: ") for sentence in found), found


def test_an_accumulator_needs_its_leaf() -> None:
    graph = whole()
    odd = replace(graph, backward_nodes=(*graph.backward_nodes, BackwardNode(2, "AccumulateGrad", 0, (), 99)))
    assert problems(odd) == ["backward-nodes: backward node 2 adds into value 99, which does not exist"]


def test_iterations_are_numbered() -> None:
    graph = whole()
    iteration = next(each for each in graph.regions if each.kind == "iteration")
    regions = list(graph.regions)
    regions[iteration.id] = replace(iteration, index=4)
    assert any(each.startswith("regions: iteration") for each in problems(replace(graph, regions=tuple(regions))))
    assert isinstance(iteration, Region)
