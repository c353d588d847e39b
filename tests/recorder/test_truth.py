"""The recorded graph is the one that autograd has: node by node, edge by edge, from the loss down to the leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from torch import Tensor, nn

import plait
from plait.graph import Graph

from .generated import Instruction, instructions, run


def compare(graph: Graph, loss: Tensor) -> list[str]:
    """What differs between the recorded backward nodes and `loss.grad_fn` with everything behind it."""
    problems = graph.legal()
    start = graph.values[graph.backwards[-1].roots[0]].grad_fn
    if loss.grad_fn is None or start is None:
        return [*problems, f"the loss has grad_fn {loss.grad_fn}, recorded {start}"]
    found: dict[Any, int] = {}
    stack: list[tuple[Any, int]] = [(loss.grad_fn, start)]
    while stack:
        real, number = stack.pop()
        if real in found:
            if found[real] != number:
                problems.append(f"{real.name()} is two recorded nodes: {found[real]} and {number}")
            continue
        found[real] = number
        ours = graph.backward_nodes[number]
        if real.name() != ours.name and ours.leaf is None:
            problems.append(f"{real.name()} is recorded as {ours.name}")
        if hasattr(real, "variable"):
            if ours.leaf is None or graph.values[ours.leaf].shape != tuple(real.variable.shape):
                problems.append(f"{real.name()} does not add into a recorded leaf of its shape")
            continue
        if len(real.next_functions) != len(ours.parents):
            problems.append(f"{real.name()} has {len(real.next_functions)} parents, recorded {len(ours.parents)}")
            continue
        for (parent, place), recorded in zip(real.next_functions, ours.parents):
            if (parent is None) != (recorded is None):
                problems.append(f"{real.name()}: parent {parent}, recorded {recorded}")
            elif recorded is not None:
                if recorded[1] != place:
                    problems.append(f"{real.name()}: input number {place}, recorded {recorded[1]}")
                stack.append((parent, recorded[0]))
    if len(set(found.values())) != len(found):
        problems.append("two nodes of autograd are one recorded node")
    for number in found.values():
        owner = graph.nodes[graph.backward_nodes[number].node]
        ours = graph.backward_nodes[number]
        if ours.leaf is None and number not in owner.backward:
            problems.append(f"{ours.name} says it belongs to node {owner.id}, which does not list it")
    return problems


def recorded(program: Any) -> tuple[Graph, Tensor]:
    record = plait.record()
    with record:
        loss = program()
        loss.backward(retain_graph=True)
    return record.graph, loss


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def views_of_a_written_base() -> Tensor:
    base = leaf(4) * 1
    left, right = base[:2], base[1:]
    left.mul_(2)
    return (right * 3).sum() + left.sum() + base.sum()


def base_written_under_a_view() -> Tensor:
    base = leaf(4) * 1
    view = base[:2]
    base.mul_(2)
    return (view * 3).sum() + base.sum()


def buffer_filled_in_a_loop() -> Tensor:
    weight, out = leaf(1), torch.zeros(4)
    for t in range(4):
        out[t] = weight[0] * t
    return out.sum()


def several_outputs() -> Tensor:
    x = leaf(6, 2)
    a, b, c = x.split(2)
    values, places = (a + b * c).max(1)
    return values.sum() + places.sum()


def rows_of_a_matrix() -> Tensor:
    total = torch.zeros(())
    for row in leaf(4, 3) * 1:
        total = total + row.exp().sum()
    return total


def layers_with_buffers() -> Tensor:
    norm = nn.BatchNorm1d(3)
    return norm(norm(torch.randn(5, 3))).sum()


def cell_loop_with_decisions() -> Tensor:
    cell, state = nn.LSTMCell(2, 3), (torch.zeros(1, 3), torch.zeros(1, 3))
    for _ in range(5):
        state = cell(torch.randn(1, 2), state)
        if state[0].mean() > 0:
            state = (state[0] * 2, state[1])
    return state[0].sum()


def attention_and_loss() -> Tensor:
    layer, head = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 5)
    return F.cross_entropy(head(layer(torch.randn(2, 4, 8))).flatten(0, 1), torch.randint(0, 5, (8,)))


def packed() -> Tensor:
    out, _ = nn.GRU(3, 4, 2)(nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)]))
    return nn.utils.rnn.pad_packed_sequence(out)[0].sum()


def double_backward() -> Tensor:
    x = leaf(3)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return (gradient * gradient).sum()


class TwoResults(torch.autograd.Function):
    """Product and sum."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(a, b)
        return a * b, a + b

    @staticmethod
    def backward(ctx: Any, one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return one * b + two, one * a + two


def custom_function() -> Tensor:
    product, total = TwoResults.apply(leaf(2) * 1, leaf(2))
    return (product + total).sum()


def checkpointed() -> Tensor:
    layer = nn.Linear(3, 3)
    inside = torch.utils.checkpoint.checkpoint(lambda z: layer(z).relu(), leaf(2, 3), use_reentrant=False)
    return inside.sum()


def returned_as_it_was() -> Tensor:
    x = leaf(5)
    return (x * 2).contiguous().to(torch.float32).view(5).sum() + x.requires_grad_().sum()


def square_with_itself() -> Tensor:
    x = leaf(3)
    return (x * x + torch.stack([x, x])).sum()


def masks_and_places() -> Tensor:
    x = leaf(5)
    return x[torch.tensor([0, 2])].sum() + x[x > 0].sum() + torch.where(x > 0, x, x.exp()).sum()


@pytest.mark.parametrize(
    "program",
    [views_of_a_written_base, base_written_under_a_view, buffer_filled_in_a_loop, several_outputs, rows_of_a_matrix,
     layers_with_buffers, cell_loop_with_decisions, attention_and_loss, packed, double_backward, custom_function,
     checkpointed, returned_as_it_was, square_with_itself, masks_and_places],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_backward_nodes_are_those_of_autograd(program: Any) -> None:
    torch.manual_seed(0)
    assert compare(*recorded(program)) == []


def test_the_comparison_can_fail() -> None:
    graph, _ = recorded(square_with_itself)
    _, other = recorded(several_outputs)
    assert compare(graph, other)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(instructions())
def test_random_programs(program: list[Instruction]) -> None:
    graph, loss = recorded(lambda: run(program))
    assert compare(graph, loss) == []


@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(instructions())
def test_the_same_program_twice_gives_equal_graphs(program: list[Instruction]) -> None:
    records = []
    for times in (3, 2):
        record = plait.record()
        with record:
            for _ in range(times):
                run(program).backward()
        assert {step.graph for step in record.steps} == {0}
        records.append(record)
    one, two = (record.graph for record in records)
    assert one.hashes == two.hashes
    assert (one.nodes, one.values, one.backward_nodes) == (two.nodes, two.values, two.backward_nodes)


def test_values_are_as_the_tensors() -> None:
    record = plait.record()
    with record:
        x = torch.randn(2, 3, requires_grad=True)
        y = x.double()
        z = y[:, 1:]
        z.mul_(2)
        m = (z > 0).to(torch.uint8)
        z.sum().backward()
    graph = record.graph
    last = {value.name: value for value in graph.values}
    assert (last["x"].shape, last["x"].dtype, last["x"].leaf, last["x"].requires_grad) == ((2, 3), "f32", True, True)
    assert (last["z"].shape, last["z"].dtype, last["z"].leaf) == ((2, 2), "f64", False)
    first_z = next(value for value in graph.values if value.name == "z")
    assert first_z.base is not None and graph.values[first_z.base].name == "y"
    assert last["m"].dtype == "u8" and not last["m"].requires_grad
    (write,) = (node for node in graph.nodes if node.writes)
    assert write.op == "mul_" and graph.values[write.writes[0]].name == "z"
    assert graph.values[write.outputs[0]].version == z._version - first_z.version - 0 == 1
    del m


def saved_by_hand(loss: Tensor, inputs: set[int]) -> int:
    """Bytes of the distinct storages that the graph of `loss` keeps, without those of `inputs`."""
    found: dict[int, int] = {}
    stack, seen = [loss.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        stack += [parent for parent, _ in node.next_functions]
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, Tensor):
                    storage = tensor.untyped_storage()
                    found[storage._cdata] = storage.nbytes()
    return sum(size for key, size in found.items() if key not in inputs)


def test_saved_bytes_count_each_storage_once() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid()), torch.randn(3, 4)
    record = plait.record()
    with record:
        out = model(x)
        loss = (out * out.exp()).view(-1).square().mean()
        own = {p.untyped_storage()._cdata for p in (*model.parameters(), x)}
        expected = saved_by_hand(loss, own)
        loss.backward()
    assert record.steps[-1].saved_bytes == expected
