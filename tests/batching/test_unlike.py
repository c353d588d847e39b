"""Examples that have nothing in common: a few run in lanes, the rest as the plain loop, at about its cost."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import plait

D = torch.float64
SCALE = torch.ones((), dtype=D, requires_grad=True)


def steps(x: Tensor) -> Tensor:
    for _ in range(9):
        x = torch.tanh(x) * SCALE
        if x.sum() > 0:
            x = x * 0.5
    return x.sum()


def unlike(n: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(3, 2 + k, dtype=D, requires_grad=True) for k in range(n)]


def test_the_rest_runs_as_the_loop() -> None:
    xs = unlike(20)
    b = plait.batch(steps)
    got = b(xs)
    want = torch.stack([steps(x) for x in xs])
    torch.testing.assert_close(got, want)
    mine = torch.autograd.grad(got.sum(), [*xs, SCALE])
    theirs = torch.autograd.grad(want.sum(), [*xs, SCALE])
    for a, b_ in zip(mine, theirs):
        torch.testing.assert_close(a, b_)
    assert "all but the first 8" in b.report.loop and "plain loop" in str(b.report)
    b(xs)
    assert "nothing to run together" in b.report.loop  # and the next calls have no lanes at all


def test_each_example_runs_once_and_in_order() -> None:
    seen: list[int] = []

    def f(x: Tensor) -> tuple[Tensor, int]:
        seen.append(x.shape[1])
        return steps(x), x.shape[1]

    _, widths = plait.batch(f)(unlike(20))
    assert seen == widths == list(range(2, 22))


def test_few_examples_all_run_in_lanes() -> None:
    b = plait.batch(steps)
    b(unlike(15))
    assert not b.report.loop and b.report.width == 1


def test_what_becomes_alike_later_is_batched() -> None:
    """Other sizes at first, so that nothing runs together until after a decision."""

    def f(x: Tensor) -> Tensor:
        if (x * x).sum() < 0:
            return x.sum()
        h = x.sum(1)  # all of one size from here on
        for _ in range(9):
            h = torch.tanh(h) * SCALE
            if h.sum() > 0:
                h = h * 0.5
        return h.sum()

    xs = unlike(20)
    b = plait.batch(f)
    torch.testing.assert_close(b(xs), torch.stack([f(x) for x in xs]))
    assert not b.report.loop and b.report.groups["tanh"].width > 4


def test_an_error_in_the_rest_names_the_example() -> None:
    def f(x: Tensor) -> Tensor:
        if x.shape[1] == 19:
            raise ValueError("too wide")
        return steps(x)

    with pytest.raises(ValueError, match="too wide") as caught:
        plait.batch(f)(unlike(20))
    assert caught.value.__notes__ == ["plait.batch: in example 17 of 20"]


def test_results_of_both_kinds_are_stacked() -> None:
    def f(x: Tensor) -> Tensor:
        return steps(x) * torch.unique(torch.ones(4, dtype=D) * (x * 0).sum().abs())

    xs = unlike(20)
    got = plait.batch(f)(xs)
    assert isinstance(got, Tensor)
    torch.testing.assert_close(got, torch.stack([f(x) for x in xs]))


def test_what_a_loop_cannot_do_keeps_its_lanes() -> None:
    b = plait.batch(steps, all_parameters=True)
    b(unlike(20))
    assert not b.report.loop
