"""Walks against brute force on random graphs, and on a chain that no recursion survives."""

import time
from itertools import pairwise

import pytest
from hypothesis import given

from handmade import Tape
from plait._errors import NotFoundError
from plait.graph import Graph
from plait.graph._walk import ancestors, backward_order, between, descendants, find, path, sources
from streams import streams


def closure(graph: Graph) -> list[set[int]]:
    """For every node all that flows into it, by the definition."""
    above: list[set[int]] = []
    for node in graph.nodes:
        direct = set(sources(graph, node.id))
        above.append(direct.union(*(above[each] for each in direct)))
    return above


@given(streams())
def test_ancestors_and_descendants_are_each_others_mirror(tape: Tape) -> None:
    graph = tape.graph()
    above = closure(graph)
    for node in graph.nodes:
        assert [each.id for each in ancestors(graph, node)] == sorted(above[node.id])
        below = [each for each in range(len(graph.nodes)) if node.id in above[each]]
        assert [each.id for each in descendants(graph, node)] == below


@given(streams())
def test_a_path_is_shortest_and_follows_the_flow(tape: Tape) -> None:
    graph = tape.graph()
    above = closure(graph)
    last = len(graph.nodes) - 1
    distance = {last: 0}
    for number in range(last, -1, -1):
        if number in distance:
            for source in sources(graph, number):
                distance[source] = min(distance.get(source, 10**9), distance[number] + 1)
    # sources come before their users, so one pass from the end relaxes every edge after its user is final
    for start in range(last + 1):
        found = path(graph, start, last)
        if start == last:
            assert found is not None and [each.id for each in found] == [last]
        elif start not in above[last]:
            assert found is None
        else:
            assert found is not None and len(found) == distance[start] + 1
            assert found[0].id == start and found[-1].id == last
            for one, two in pairwise(found):
                assert one.id in sources(graph, two.id)


@given(streams())
def test_between_is_what_lies_on_paths(tape: Tape) -> None:
    graph = tape.graph()
    above = closure(graph)
    last = len(graph.nodes) - 1
    expected = [n for n in range(last + 1) if (n == 0 or 0 in above[n]) and (n == last or n in above[last])]
    assert [each.id for each in between(graph, 0, last)] == expected


def test_an_alias_carries_both_the_write_and_what_was_there() -> None:
    from plait.graph._rows import AliasRow

    tape = Tape()
    kind = tape.type(4, leaf=False)
    base = tape.op("zeros", out=kind)
    view = tape.op("__getitem__", tape.to(base), out=kind, bases=(0,))
    tape.op("add_", tape.to(view), out=kind, bases=(0,), writes=(0,))
    alias = tape.row(AliasRow(tape.to(base), 1, kind, None, 0, ()))
    tape.op("sum", tape.to(alias), out=tape.type(leaf=False))
    graph = tape.graph()
    assert sources(graph, 3) == (2, 0)
    assert graph.values[3].version == 1 and graph.values[3].node == 2
    assert graph.legal() == []


def test_a_chain_of_100_000_nodes() -> None:
    tape = Tape()
    kind = tape.type(3, grad=True, leaf=False)
    x = tape.input("data", kind, "x")
    place = tape.op("sin", x, out=kind)
    for _ in range(100_000):
        place = tape.op("sin", tape.to(place), out=kind)
    graph = tape.graph()
    start = time.perf_counter()
    assert len(ancestors(graph, 100_001)) == 100_001
    assert len(descendants(graph, 0)) == 100_001
    found = path(graph, 0, 100_001)
    assert found is not None and len(found) == 100_002
    assert graph.legal() == []
    assert time.perf_counter() - start < 20


def test_find_by_op_line_and_scope() -> None:
    tape = Tape("y = model(x)\nz = y + 1\n")
    kind = tape.type(3)
    encoder, outer = tape.scope("encoder.layers.0", "Linear"), tape.scope("encoder2", "Linear")
    x = tape.input("data", kind, "x")
    first = tape.op("linear", x, out=kind, site=tape.site(1, "model(x)"), scope=encoder)
    tape.op("linear", x, out=kind, site=tape.site(1, "model(x)"), scope=outer)
    tape.op("__add__", tape.to(first), out=kind, site=tape.site(2, "y + 1"))
    graph = tape.graph()
    assert [node.id for node in find(graph, op="add")] == [3]
    assert [node.id for node in find(graph, op="__add__")] == [3]
    assert [node.id for node in find(graph, line=1)] == [1, 2]
    assert [node.id for node in find(graph, scope="encoder")] == [1]
    assert [node.id for node in find(graph, op="linear", scope="encoder2")] == [2]
    assert find(graph, op="relu") == []


def test_a_node_that_is_not_there() -> None:
    graph = Tape().graph()
    with pytest.raises(NotFoundError, match="there is no node 7: the graph has 0 nodes"):
        ancestors(graph, 7)


def test_backward_order_goes_from_late_to_early_and_ends_at_the_leaves() -> None:
    from handmade import product

    tape = product()
    graph = next(iter(_graphs(tape)))
    loss = graph.backwards[0].roots[0]
    names = [graph.backward_nodes[each].name for each in backward_order(graph, loss)]
    assert names == ["SumBackward0", "MulBackward0", "AccumulateGrad", "AccumulateGrad"]


def _graphs(tape: Tape) -> list[Graph]:
    tape.tokens = list(next(iter(tape.graphs)))
    return [tape.graph()]
