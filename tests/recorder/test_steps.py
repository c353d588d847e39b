"""Where steps begin and end, and which of them are one graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import plait


def kinds(rec: plait.Recording) -> str:
    """One letter a step: t(rain), f(orward), r(est)."""
    return "".join(step.kind[0] for step in rec.steps)


def loops_of(rec: plait.Recording) -> list[int | None]:
    """The graph numbers of the training steps."""
    return [step.graph for step in rec.steps if step.kind == "train"]


def ops(rec: plait.Recording, step: int) -> list[str]:
    return [node.op for node in rec.graph_of(step).nodes if node.kind == "op"]


def model_and_optimizer(kind: Any = torch.optim.SGD) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return model, kind(model.parameters(), lr=0.01)


DATA = [torch.randn(2, 3) for _ in range(8)]


def batches(count: int) -> list[Tensor]:
    return DATA[:count]


# -- the plain loop, wherever zero_grad stands --------------------------------------------------------------------


def zero_first(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    for batch in data:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()


def zero_in_the_middle(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    for batch in data:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def zero_last(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    for batch in data:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def zero_of_the_model_last(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    for batch in data:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        model.zero_grad()


def zero_first_and_the_loss_read_last(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]
) -> None:
    total = 0.0
    for batch in data:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()


def preprocessing_first(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    for batch in data:
        scaled = (batch - 1) / 2
        optimizer.zero_grad()
        loss = model(scaled).square().mean()
        loss.backward()
        optimizer.step()


def step_in_a_function(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    def train(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for batch in data:
        train(batch).item()


def while_loop(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    data, step = list(data), 0
    while step < len(data):
        loss = model(data[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1


def two_epochs(model: nn.Module, optimizer: torch.optim.Optimizer, data: Iterable[Tensor]) -> None:
    data = list(data)
    for part in (data[:2], data[2:]):
        for batch in part:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()


LOOPS = [
    zero_first, zero_in_the_middle, zero_last, zero_of_the_model_last, zero_first_and_the_loss_read_last,
    preprocessing_first, step_in_a_function, while_loop, two_epochs,
]  # fmt: skip


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_plain_loop_is_one_graph(loop: Callable[..., None], optimizer: Any) -> None:
    made = model_and_optimizer(optimizer)
    with plait.record() as rec:
        loop(*made, batches(5))
    assert kinds(rec) == "ttttt"
    assert len(set(loops_of(rec))) == 1
    assert all(step.complete for step in rec.steps)
    graph = rec.graph_of(rec.steps[-1])
    assert len(graph.backwards) == 1 and graph.legal() == []


@pytest.mark.parametrize("loop", LOOPS)
def test_setup_before_the_loop_is_a_step_of_its_own(loop: Callable[..., None]) -> None:
    def main() -> None:
        model, optimizer = model_and_optimizer()
        data = [batch * 2 for batch in batches(4)]
        mean = torch.stack(data).mean()
        loop(model, optimizer, [batch - mean for batch in data])

    with plait.record() as rec:
        main()
    assert kinds(rec) == "rtttt"
    assert "stack" in ops(rec, 0) and "linear" not in ops(rec, 0)
    assert len(set(loops_of(rec))) == 1


SCRIPT = """
import torch
from torch import nn
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mean = torch.ones(4, 3).mean(0)
def main():
    for step in range(5):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3) - mean).sum()
        loss.backward()
        optimizer.step()
if INSIDE:
    main()
else:
    for step in range(5):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3) - mean).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("inside", [False, True])
def test_a_loop_at_the_top_of_a_script(inside: bool, tmp_path: Any) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    code = compile(SCRIPT, str(file), "exec")
    with plait.record() as rec:
        exec(code, {"INSIDE": inside, "__name__": "__main__"})
    assert kinds(rec) == "rttttt"
    assert len(set(loops_of(rec))) == 1
    assert "mean" in ops(rec, 0) and "linear" in ops(rec, 1)


# -- where a step ends -------------------------------------------------------------------------------------------


def test_the_loss_that_is_read_after_the_step_belongs_to_it() -> None:
    model, optimizer = model_and_optimizer()
    with plait.record() as rec:
        for batch in batches(3):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            value = loss.item()
            assert f"{loss:.3f}"
    assert kinds(rec) == "ttt"
    for step in rec.steps:
        assert [decision.how for decision in rec.graph_of(step).decisions][:1] == ["item"]
        assert step.reads[0].value == pytest.approx(step.loss)
    assert rec.steps[-1].reads[0].value == pytest.approx(value)


def test_a_backward_that_no_optimizer_follows_ends_a_step() -> None:
    x = torch.ones(3, requires_grad=True)
    with plait.record() as rec:
        for factor in (1.0, 2.0, 3.0):
            (x * factor).sum().backward()
            with torch.no_grad():
                x -= 0.1 * x.grad
            x.grad = None
    assert kinds(rec).startswith("ttt")
    assert ops(rec, 1).count("mul") >= 1 and rec.steps[1].loss == pytest.approx(2 * (1 - 0.1) * 3)


@pytest.mark.parametrize("zero_at", ["start", "end"])
def test_gradient_accumulation_is_one_step(zero_at: str) -> None:
    model, optimizer = model_and_optimizer()
    with plait.record() as rec:
        for index, batch in enumerate(batches(8)):
            if zero_at == "start" and index % 4 == 0:
                optimizer.zero_grad()
            loss = model(batch).square().mean() / 4
            loss.backward()
            if index % 4 == 3:
                optimizer.step()
                if zero_at == "end":
                    optimizer.zero_grad()
    assert kinds(rec) == "tt"
    assert [len(rec.graph_of(step).backwards) for step in rec.steps] == [4, 4]
    assert rec.steps[0].graph == rec.steps[1].graph


def test_accumulation_in_an_inner_loop() -> None:
    model, optimizer = model_and_optimizer()
    with plait.record() as rec:
        for _ in range(3):
            optimizer.zero_grad()
            for batch in batches(2):
                model(batch).square().mean().backward()
            optimizer.step()
    assert kinds(rec) == "ttt"
    assert [len(rec.graph_of(step).backwards) for step in rec.steps] == [2, 2, 2]
    assert len(set(loops_of(rec))) == 1


def test_two_optimizers_take_turns() -> None:
    """A GAN: every optimizer's step ends one, and two graphs come again and again."""
    generator, discriminator = nn.Linear(2, 3), nn.Linear(3, 1)
    of_g, of_d = (torch.optim.Adam(each.parameters()) for each in (generator, discriminator))
    with plait.record() as rec:
        for _ in range(4):
            of_d.zero_grad()
            fake = generator(torch.randn(5, 2)).detach()
            loss = F.softplus(discriminator(fake)).mean() + F.softplus(-discriminator(torch.randn(5, 3))).mean()
            loss.backward()
            of_d.step()
            of_g.zero_grad()
            F.softplus(-discriminator(generator(torch.randn(5, 2)))).mean().backward()
            of_g.step()
    assert kinds(rec) == "tttttttt"
    graphs = [step.graph for step in rec.steps]
    assert graphs == [graphs[0], graphs[1]] * 4 and graphs[0] != graphs[1]
    assert [event.kind for event in rec.graph_of(0).events] == ["zero_grad", "optimizer"]


def test_lbfgs_calls_its_closure_inside_the_step() -> None:
    model, optimizer = model_and_optimizer(lambda parameters, lr: torch.optim.LBFGS(parameters, lr=lr, max_iter=3))
    batch = torch.randn(2, 3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return loss

    with plait.record() as rec:
        for _ in range(3):
            optimizer.step(closure)
    assert kinds(rec) == "ttt"
    for step in rec.steps:
        graph = rec.graph_of(step)
        assert len(graph.backwards) >= 1 and graph.legal() == []
        assert len(graph.find("linear")) == 2 * len(graph.backwards)


def test_evaluation_between_epochs_is_forward_steps() -> None:
    model, optimizer = model_and_optimizer()
    held_out = batches(3)
    with plait.record() as rec:
        for _ in range(2):
            for batch in batches(2):
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for batch in held_out:
                    model(batch)
            model.train()
    assert kinds(rec) == "ttfffttfff"
    graphs = [step.graph for step in rec.steps]
    assert graphs[0] == graphs[1] == graphs[5] == graphs[6]
    assert graphs[2] == graphs[3] == graphs[4]


def test_evaluation_that_adds_up_its_losses() -> None:
    model, optimizer = model_and_optimizer()

    @torch.no_grad()
    def evaluate() -> float:
        return sum(model(batch).square().mean().item() for batch in batches(3)) / 3

    with plait.record() as rec:
        for _ in range(3):
            zero_first(model, optimizer, batches(2))
            evaluate()
    assert kinds(rec).count("t") == 6 and kinds(rec).count("f") == 9
    assert len(set(loops_of(rec))) == 1


def test_without_backward_each_outermost_call_is_a_step() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with plait.record() as rec, torch.no_grad():
        for length in (1, 2, 1):
            out = model(torch.ones(length, 3))
            assert out.sum() >= 0
    assert kinds(rec) == "fff"
    assert rec.steps[0].graph == rec.steps[2].graph != rec.steps[1].graph
    assert all("sum" in ops(rec, step) for step in range(3))


def test_inference_mode_without_a_loop() -> None:
    model = nn.Linear(3, 3)
    with plait.record() as rec, torch.inference_mode():
        model(torch.ones(1, 3))
        model(torch.ones(2, 3))
    assert kinds(rec) == "ff"


def test_two_models_of_one_loss_are_one_step() -> None:
    encoder, decoder = nn.Linear(3, 2), nn.Linear(2, 3)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    with plait.record() as rec:
        for batch in batches(3):
            optimizer.zero_grad()
            F.mse_loss(decoder(encoder(batch)), batch).backward()
            optimizer.step()
    assert kinds(rec) == "ttt" and len(set(loops_of(rec))) == 1
    assert ops(rec, 2).count("linear") == 2


def test_the_program_says_where_a_step_ends() -> None:
    with plait.record() as rec:
        for length in (3, 4, 3):
            (torch.ones(length) * 2).sum()
            rec.step()
    assert kinds(rec) == "rrr"
    graphs = [step.graph for step in rec.steps]
    assert graphs[0] == graphs[2] != graphs[1]


def test_truncated_backpropagation_through_time() -> None:
    cell, head = nn.RNNCell(2, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    sequence = torch.randn(12, 1, 2)
    with plait.record() as rec:
        hidden = torch.zeros(1, 4)
        for chunk in sequence.split(3):
            hidden = hidden.detach()
            loss: Any = 0
            for row in chunk:
                hidden = cell(row, hidden)
                loss = loss + head(hidden).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert kinds(rec).strip("r") == "tttt"
    later = [step.graph for step in rec.steps if step.kind == "train"][1:]
    assert len(set(later)) == 1
    graph = rec.graph_of(rec.steps[-1])
    assert len(graph.find("rnn_tanh_cell")) == 3 and any(node.op == "detach" for node in graph.nodes)


def test_alternating_shapes_are_two_graphs_of_one_program() -> None:
    model, optimizer = model_and_optimizer()
    data = [torch.randn(2 + index % 2, 3) for index in range(6)]
    with plait.record() as rec:
        zero_first(model, optimizer, data)
    graphs = loops_of(rec)
    assert graphs == [graphs[0], graphs[1]] * 3 and graphs[0] != graphs[1]
    assert len({each.program for each in rec.variants if each.graph in graphs}) == 1


def test_what_runs_after_the_loop_is_a_step_of_its_own() -> None:
    model, optimizer = model_and_optimizer()
    with plait.record() as rec:
        zero_first(model, optimizer, batches(3))
        norms = [parameter.norm() for parameter in model.parameters()]
        assert torch.stack(norms).max() > 0
    assert kinds(rec) == "tttr"
    assert "stack" in ops(rec, 3)


def test_many_outermost_calls_before_one_backward() -> None:
    """A loss over many calls is one step, not one a call."""
    cell = nn.RNNCell(2, 3)
    with plait.record() as rec:
        for _ in range(3):
            cell.zero_grad()
            hidden = torch.zeros(1, 3)
            for _ in range(300):
                hidden = cell(torch.ones(1, 2), hidden)
            hidden.sum().backward()
    assert kinds(rec) == "ttt"
    assert len(rec.graph_of(0).find("rnn_tanh_cell")) == 300
    assert len(set(loops_of(rec))) == 1


def test_a_loop_that_is_recorded_from_its_middle() -> None:
    model, optimizer = model_and_optimizer()
    rec = plait.record()
    for index in itertools.count():
        with rec:
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        if index == 3:
            break
    assert kinds(rec) == "tttt"
    assert len(set(loops_of(rec))) == 1


def test_an_error_cuts_the_step_off() -> None:
    model, optimizer = model_and_optimizer()
    data = [*batches(2), torch.ones(2, 5)]
    rec = plait.record()
    with pytest.raises(RuntimeError), rec:
        preprocessing_first(model, optimizer, data)
    assert [step.complete for step in rec.steps] == [True, True, False]
    assert rec.meta["status"] == "stopped by RuntimeError"


def test_autocast_clipping_and_a_scheduler_keep_the_loop_one_graph() -> None:
    model, optimizer = model_and_optimizer(torch.optim.AdamW)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    with plait.record() as rec:
        for batch in batches(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(batch).float().square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
    assert kinds(rec) == "tttt" and len(set(loops_of(rec))) == 1
