"""networkx and pandas get every node and edge."""

import networkx

from handmade import loop, product
from plait.graph import Graph


def graph_of(tape: object) -> Graph:
    tape.tokens = list(next(iter(tape.graphs)))  # type: ignore[attr-defined]
    return tape.graph()  # type: ignore[attr-defined,no-any-return]


def test_networkx_keeps_argument_positions() -> None:
    made = graph_of(product()).to_networkx()
    assert made.nodes[2]["op"] == "mul" and made.nodes[2]["name"] == "z"
    assert sorted((a, b, data["position"]) for a, b, data in made.edges(data=True)) == [
        (0, 2, "0"), (1, 2, "1"), (2, 3, "0"),
    ]  # fmt: skip
    assert networkx.is_directed_acyclic_graph(made)


def test_an_argument_that_is_used_twice_is_two_edges() -> None:
    from handmade import Tape

    tape = Tape()
    x = tape.input("data", tape.type(3), "x")
    tape.op("__mul__", x, x, out=tape.type(3))
    assert tape.graph().to_networkx().number_of_edges(0, 1) == 2


def test_pandas_has_one_row_a_node() -> None:
    graph = graph_of(loop([[True, False]]))
    frame = graph.to_pandas()
    assert len(frame) == len(graph.nodes)
    assert frame.loc[frame.op == "tanh", "line"].tolist() == [8]
    assert frame.loc[0, "kind"] == "input" and frame.loc[0, "shape"] == (2, 5)
    assert frame.loc[frame.op == "add", "inputs"].tolist()[0] == (1, 2)
    assert frame.loc[frame.op == "detach", "cut"].tolist() == ["detach"]
