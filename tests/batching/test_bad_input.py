"""What cannot be right is refused in one sentence: the line, the example, the way out; and nothing is left behind."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import plait
from plait.batching import BatchError
from plait.testing import check_batch
from tests.batching.test_sharp_edges import D, clean, lanes_alive, rows

HERE = r"test_bad_input.py:\d+"
shared = torch.zeros(4, dtype=D)
kept: dict[str, Tensor] = {}


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, dtype=D))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        return x.sum(0)


class Replaces(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale
        self.scale = self.other
        return y


class Remembers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x.sum(0)
        return self.last


def caches(x: Tensor) -> Tensor:
    return kept.setdefault("h", x.sum(0)) * x.sum(0)


def writes(x: Tensor) -> Tensor:
    if len(x) == 3:
        shared[1] = x.sum()
    return x.sum(0)


@plait.cell
def decides(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


@plait.cell
def without_a_shape(x: Tensor) -> Tensor:
    return ctc(x)


def ctc(x: Tensor) -> Tensor:
    log_p = x.log_softmax(1)[:, None]
    return F.ctc_loss(log_p, torch.tensor([[1]]), torch.tensor([len(x)]), torch.tensor([1]))


def goes_back(x: Tensor) -> Tensor:
    loss = x.sum()
    loss.backward()
    return loss


CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "buffer": (Counts(), rf"`add_` writes to 'total' of Counts.*{HERE}, example 0\).*return the new value instead"),
    "global tensor": (
        writes,
        rf"tensor of shape \[4\] that all examples share \(.*{HERE}, example 2\).*make the tensor",
    ),
    "attribute": (
        Remembers(),
        rf"keeps a value of one example in `last` of Remembers.*{HERE}, example 2\), which all examples share; pass it",
    ),
    "parameter": (
        Replaces(),
        rf"replaces `scale` of Replaces \(.*{HERE}, a parameter that all examples share\); pass it on as an argument",
    ),
    "cache": (caches, rf"example 1 uses a value that example 0 made \(.*{HERE}, example 1\).*return the value instead"),
    "random": (
        lambda x: F.dropout(x, 0.5) if len(x) > 2 else x,
        rf"`dropout` draws random numbers \(.*{HERE}, example 2\): pass randomness='different'",
    ),
    "structure": (
        lambda x: (x, x) if len(x) == 3 else x,
        "example 2 returned a tuple of 2, but example 0 returned one value; return the same structure",
    ),
    "none": (lambda x: None if len(x) == 3 else x, "example 2 returned None where example 0 returned a tensor"),
    "cell": (lambda x: decides(x[0]), rf"the cell 'decides' \(.*{HERE}\) reads a value.*take the decision outside"),
    "alone in a cell": (without_a_shape, r"ctc_loss, which runs one example at a time.*outside of the cell"),
    "backward": (goes_back, rf"`backward` inside plait.batch \(.*{HERE}, example 0\): call backward\(\) on what"),
}


@pytest.mark.parametrize("name", CASES)
def test_is_refused_in_one_sentence(name: str) -> None:
    func, sentence = CASES[name]
    kept.clear()
    with pytest.raises(BatchError, match=sentence) as e:
        plait.batch(func)(rows(1, 2, 3))
    assert "\n" not in str(e.value)
    del e
    clean()
    assert lanes_alive() == 0
    assert torch.equal(shared, torch.zeros_like(shared))
    check_batch(lambda x: torch.tanh(x).sum(0), rows(1, 2))  # the next call works


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1, 2], [1, 2, 3]), "argument 0 has 2 examples, but argument 1 has 3; all must have the same number"),
        ((tuple(rows(1, 2)),), r"argument 0\[0\] has 1 examples, .* a tuple is structure, not a list of examples"),
        ((5,), "argument 0 is of type int: pass a list of examples or a tensor, or None in in_dims"),
        (("ab",), "argument 0 is of type str"),
        (([],), "no examples"),
    ],
)
def test_arguments(arguments: Any, sentence: str) -> None:
    with pytest.raises(BatchError, match=sentence):
        plait.batch(lambda *a: a[0])(*arguments)
    clean()


def test_exception_in_example_17() -> None:
    lin = nn.Linear(4, 4).double()

    def f(x: Tensor, k: int) -> Tensor:
        h = lin(x[0])
        if h.sum() > 1e9 or k == 17:
            return h[9]
        return torch.tanh(h) if h.sum() > 0 else h

    with pytest.raises(IndexError) as e:
        plait.batch(f)(rows(*[2] * 20), list(range(20)))
    assert e.value.__notes__ == ["plait.batch: in example 17 of 20"]
    assert any(t.path.name == "test_bad_input.py" and t.name == "f" for t in e.traceback)
    del e
    clean()
    assert lanes_alive() == 0


def test_op_without_any_batched_form_runs_alone() -> None:
    """PyTorch has no shape function for ctc_loss; it must run before its result is known."""
    report = check_batch(lambda x: ctc(torch.tanh(x)) * 2, rows(2, 3, 2))
    assert report.alone["ctc_loss", "PyTorch cannot tell the shape of its result without the numbers"] == 3
    assert "ctc_loss ran one example at a time 3 times" in str(report)
    check_batch(lambda x: x.sum(1).nonzero(as_tuple=True), rows(2, 3))
    with pytest.raises(BatchError, match="fallback='error'"):
        plait.batch(ctc, fallback="error")(rows(2, 3))


def test_line_of_the_call_where_the_function_is_all_pytorch() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).double()
    with pytest.raises(BatchError, match=rf"`dropout` draws random numbers \(.*{HERE}, example 0\)"):
        plait.batch(net)(rows(1, 2))


def test_hint_for_a_batch_dimension_of_one() -> None:
    lstm = nn.LSTM(4, 3, batch_first=True).double()
    b = plait.batch(lambda x: lstm(x.unsqueeze(0))[0].mean(1))
    b(rows(2, 3, 4, 5))
    assert "hint: unsqueeze ran in groups of 1.0: leave out the batch dimension of one" in str(b.report)


@dataclasses.dataclass
class Answer:
    score: Tensor
    steps: int


@pytest.mark.parametrize("hold", [lambda v: Answer(v, 3), lambda v: {v}, lambda v: collections.deque([v])])
def test_a_value_returned_inside_of_an_object(hold: Callable[[Tensor], Any]) -> None:
    with pytest.raises(BatchError, match=r"example 0 returned a value inside of an object of type (Answer|set|deque)"):
        plait.batch(lambda x: hold(x.sum()))(rows(3, 2, 4))
    clean()


# ---------------------------------------------------------------------- values that outlive their batch
def test_a_value_of_an_earlier_batch() -> None:
    """The same example of the next batch has a value in the same place: it must not pass for the kept one."""
    positions: dict[int, Tensor] = {}

    def f(x: Tensor) -> Tensor:
        if len(x) not in positions:
            positions[len(x)] = torch.arange(len(x), dtype=D).softmax(0)
        return (positions[len(x)] @ x).sum()

    xs = [torch.ones(n, 4, dtype=D) * n for n in (3, 2, 4)]
    assert plait.batch(f)(xs).tolist() == pytest.approx([12.0, 8.0, 16.0])
    for use in (f, lambda x: positions[len(x)][0] * 2, lambda x: positions[3].view(1, 3).sum() + x.sum()):
        with pytest.raises(BatchError, match=r"example \d uses a value that an earlier call of plait.batch made"):
            plait.batch(use)(xs)
    with pytest.raises(BatchError, match=r"used after plait.batch had returned"):
        positions[3] + 1


@pytest.mark.parametrize("use", [lambda v: v + 1, lambda v: v[0], lambda v: v.view(2, 2), lambda v: v.sum().item()])
def test_a_value_of_another_example(use: Callable[[Tensor], Any]) -> None:
    first: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        first.append(x.sum(0))
        use(first[0])
        return x.sum()

    with pytest.raises(BatchError, match="example 1 uses a value that example 0 made"):
        plait.batch(f)(rows(3, 2, 4))


def test_a_write_to_what_another_example_made() -> None:
    first: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        first.append(torch.zeros(4, dtype=D))
        first[0].add_(1)
        return first[0].sum() + x.sum()

    with pytest.raises(BatchError, match="example 1"):
        plait.batch(f)(rows(3, 2, 4))


def test_a_generator_is_no_result() -> None:
    def f(x: Tensor) -> Any:
        yield x.sum()

    with pytest.raises(BatchError, match=r"example 0 returned a value inside of an object of type generator"):
        plait.batch(f)(rows(3, 2))
