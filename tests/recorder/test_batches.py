"""Batched runs inside a recording: groups, their lines and examples, and the words about them."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import plait
from plait.batching import Batched
from plait.recording import batch_flushes, batch_groups, batches
from plait.views._batches import batch_summary
from plait.views._theme import Paint


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.RNNCell(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = torch.zeros(4)
        for row in x:
            h = self.cell(row, h)
            if h.mean() > 0:
                h = torch.relu(h)
        return self.head(h).sum()


def examples(*lengths: int) -> list[torch.Tensor]:
    return [torch.randn(n, 3) for n in lengths]


def line_of(text: str) -> int:
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def train(net: nn.Module, steps: int) -> tuple[plait.Recording, Batched]:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    batched = plait.batch(net)
    with plait.record() as recording:
        for _ in range(steps):
            optimizer.zero_grad()
            batched(examples(2, 5, 3, 1)).mean().backward()
            optimizer.step()
    return recording, batched


def test_groups_have_their_lines_and_examples() -> None:
    torch.manual_seed(0)
    recording, batched = train(Net(), 3)
    runs = list(batches(recording))
    assert [run.step for run in runs] == [step.id for step in recording.steps if step.kind == "train"]
    assert all(run.site.line == line_of("batched(examples(2, 5, 3, 1))") for run in runs)
    for run in runs:
        groups = batch_groups(recording, run.id)
        assert len(groups) == run.groups and sum(group.width for group in groups) == run.calls
        for group in groups:
            assert len(group.examples) == group.width == sum(count for _, count in group.places)
            assert set(group.examples) <= {0, 1, 2, 3}
        cells = [group for group in groups if group.name == "RNNCell"]
        assert sorted(each for group in cells for each in group.examples) == sorted([0] * 2 + [1] * 5 + [2] * 3 + [3])
        assert {site.line for group in cells for site, _ in group.places} == {line_of("self.cell(row, h)\n")}
        heads = [group for group in groups if group.name == "Linear"]
        assert [sorted(group.examples) for group in heads] == [[0, 1, 2, 3]]
    last = batched.report
    assert (last.calls, last.flushes) == (runs[-1].calls, runs[-1].flushes)


def test_a_flush_says_why() -> None:
    torch.manual_seed(0)
    recording, _ = train(Net(), 1)
    (run,) = batches(recording)
    flushes = batch_flushes(recording, run.id)
    assert len(flushes) == run.flushes
    assert [flush.waiting for flush in flushes] == [4, 3, 3 - 1, 1, 1, 0]
    assert [flush.site.line for flush in flushes[:-1]] == [line_of("if h.mean() > 0:")] * 5 and flushes[-1].site is None
    assert run.reads[0][0].line == line_of("if h.mean() > 0:") and run.reads[0][1] == 2 + 5 + 3 + 1


def test_the_step_has_one_node_for_the_batch() -> None:
    recording, _ = train(Net(), 2)
    names = [node.op for node in recording.graph.nodes if node.kind == "op"]
    assert names == ["randn"] * 4 + ["BatchNode", "mean"]


def test_parameters_have_names_when_only_a_batch_calls_their_model() -> None:
    torch.manual_seed(0)
    net, idle = Net(), nn.Linear(4, 4)
    with plait.record() as recording:
        plait.batch(lambda x: idle(x) if x.dim() > 9 else net(x))(examples(2, 4)).sum().backward()
    inputs = {
        graph.values[node.outputs[0]].name
        for graph in [recording.graph]
        for node in graph.nodes
        if node.kind == "input" and node.op == "parameter"
    }
    assert inputs == {name for name, _ in net.named_parameters()}
    # A model that was at hand but not called is none of the run's.
    assert {name for (name,) in recording._all("SELECT name FROM leaf")} == inputs


def test_the_batch_is_what_it_is_without_a_recording() -> None:
    net, xs = Net(), examples(2, 4)
    bare = plait.batch(net)(xs)
    bare.sum().backward()
    expected = [each.grad.clone() for each in net.parameters()]
    net.zero_grad()
    with plait.record():
        watched = plait.batch(net)(xs)
        watched.sum().backward()
    assert torch.equal(bare, watched)
    assert all(torch.equal(each.grad, other) for each, other in zip(net.parameters(), expected))


def test_a_batch_that_fails_leaves_the_recording_at_work() -> None:
    def fails(x):
        if x.sum() > 1e9:
            return x
        raise ValueError("no")

    with plait.record() as recording:
        with pytest.raises(ValueError, match="no"):
            plait.batch(fails)(examples(1, 2))
        torch.ones(2).relu()
    assert [node.op for node in recording.graph.nodes if node.kind == "op"][-1] == "relu"
    assert len(list(batches(recording))) == 1


def test_only_the_recorded_thread_is_watched_and_nobody_after_the_end() -> None:
    from plait._watch import batch_listeners, watch_of

    before = len(batch_listeners)
    with plait.record() as recording:
        assert len(batch_listeners) == before + 1
    assert len(batch_listeners) == before and watch_of(3) is None
    plait.batch(Net())(examples(1, 2))
    assert list(batches(recording)) == []


def test_the_words() -> None:
    def alone(x):
        return x[x.nonzero()[:, 0]].sum()

    with plait.record() as recording:
        plait.batch(alone)([torch.ones(2), torch.zeros(3)])
    text = batch_summary(recording, Paint(False))
    assert "nonzero ran alone, 2 times" in text and "would help" in text and "test_batches.py" in text
    with plait.record() as recording:
        torch.ones(1)
    assert batch_summary(recording, Paint(False)) == ""


def test_two_runs_in_one_step_belong_to_it() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    batched = plait.batch(net)
    with plait.record() as recording:
        for _ in range(2):
            with torch.no_grad():
                batched(examples(1, 1))
            optimizer.zero_grad()
            batched(examples(2, 2)).sum().backward()
            optimizer.step()
    trained = [step.id for step in recording.steps if step.kind == "train"]
    assert [run.step for run in batches(recording)] == [each for each in trained for _ in range(2)]


def test_arrows_lead_from_operations_of_the_step_into_the_batch() -> None:
    """Not from data that only the batch reads: each batch of other data would be a graph of its own."""
    net = Net()
    whole, lists = torch.randn(2, 4, 3), [examples(2 + k, 5, 3, 1) for k in range(3)]
    batched = plait.batch(net)
    with plait.record() as recording:
        for _ in range(3):
            batched(whole).mean().backward()
        for each in lists:
            batched(each).mean().backward()
    steps = [step for step in recording.steps if step.kind == "train"]
    graphs = [recording.graph_of(step) for step in steps]
    assert len(steps) == 6
    assert steps[1].graph == steps[2].graph  # rows of one tensor
    assert steps[3].graph == steps[4].graph == steps[5].graph  # lists of tensors, whatever their lengths

    def sources(graph: plait.graph.Graph) -> list[str]:
        batch = next(node for node in graph.nodes if "BatchNode" in node.op)
        return [graph.nodes[graph.values[edge.value].node].op.rpartition(".")[2] for edge in batch.inputs]

    assert sources(graphs[0]).count("unbind") == 2
    assert "unbind" not in sources(graphs[3]) and sources(graphs[3]).count("data") == 0


RECORDED_FIRST = """
import torch, plait

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

xs = [torch.ones(n, 2, requires_grad=True) for n in (1, 3)]
with plait.record() as recording:
    plait.batch(lambda x: Square.apply(x).sum())(xs).sum().backward()  # the first use of plait.batch
    Square.apply(xs[0]).sum().backward()
assert [x.grad.sum().item() for x in xs] == [8, 12], xs
Square.apply(xs[0]).sum().backward()
assert xs[0].grad.sum().item() == 12
"""


def test_a_custom_function_where_the_recording_was_first() -> None:
    done = subprocess.run([sys.executable, "-c", RECORDED_FIRST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
