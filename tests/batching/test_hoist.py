"""The part of a cell that depends on one input alone, computed for all rows at once: the same values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import plait
from plait.batching import _execute
from plait.batching._hoist import Hoisted
from plait.testing import check_batch

D = torch.float64


class Loop(nn.Module):
    """A cell over rows; `pick` says which rows."""

    def __init__(self, cell: nn.Module, pick: Any = None) -> None:
        super().__init__()
        self.cell, self.pick = cell, pick

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(5, dtype=D)
        state = (h, h) if isinstance(self.cell, nn.LSTMCell) else h
        for row in x if self.pick is None else self.pick(x):
            state = self.cell(row, state)
        return (state[0] if isinstance(state, tuple) else state).sum()


@pytest.fixture
def hoisted(monkeypatch: pytest.MonkeyPatch) -> list[Hoisted]:
    """What is hoisted while the test runs."""
    found: list[Hoisted] = []
    real = _execute.hoist

    def hoist(ex: Any, sig: Any) -> Any:
        res = real(ex, sig)
        if res is not None:
            found.append(res)
        return res

    monkeypatch.setattr(_execute, "hoist", hoist)
    return found


def sequences(*lengths: int, grad: bool = False) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(n, 3, dtype=D, requires_grad=grad) for n in lengths]


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_cells_over_rows(cell: Any, grad: bool, bias: bool, hoisted: list[Hoisted]) -> None:
    torch.manual_seed(0)
    model = Loop(cell(3, 5, bias=bias).double())
    check_batch(model, sequences(4, 2, 5, 3, grad=grad), double_backward=True)
    assert hoisted


def test_rows_that_are_computed_take_the_long_way(hoisted: list[Hoisted]) -> None:
    """Half of the cell's rows come from outside; the others are made on the way and have no product yet."""
    model = Loop(nn.RNNCell(3, 5).double(), lambda x: [r for row in x for r in (row, row * 2)])
    check_batch(model, sequences(4, 2, 5, 3))
    assert hoisted


def test_few_rows_are_not_worth_it(hoisted: list[Hoisted]) -> None:
    model = Loop(nn.RNNCell(3, 5).double(), lambda x: [x[-1]])
    check_batch(model, sequences(9, 8, 12, 10))
    assert not hoisted


def test_two_cells_with_weights_of_their_own(hoisted: list[Hoisted]) -> None:
    one, two = nn.RNNCell(3, 5).double(), nn.RNNCell(3, 5).double()

    def f(x: Tensor) -> Tensor:
        h = torch.zeros(5, dtype=D)
        for k, row in enumerate(x):
            h = one(row, h) if k % 2 else two(row, h)
        return h

    check_batch(f, sequences(8, 8, 8, 9))
    assert len({id(h.rest.shared[0]) for h in hoisted}) == 2


def test_a_cell_that_uses_its_row_twice() -> None:
    w = nn.Linear(3, 5).double()

    @plait.cell
    def step(row: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(w(row) + h) * row.sum()

    def f(x: Tensor) -> Tensor:
        h = torch.zeros(5, dtype=D)
        for row in x:
            h = step(row, h)
        return h

    check_batch(f, sequences(6, 3, 7, grad=True))


def test_second_backward_of_a_kept_graph() -> None:
    model = Loop(nn.RNNCell(3, 5).double())
    loss = plait.batch(model)(sequences(4, 2, 5)).sum()
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_no_gradient_at_all(hoisted: list[Hoisted]) -> None:
    model = Loop(nn.RNNCell(3, 5).double())
    xs = sequences(4, 2, 5)
    with torch.no_grad():
        got = plait.batch(model)(xs)
        assert torch.allclose(got, torch.stack([model(x) for x in xs]))
    assert hoisted and not got.requires_grad


def test_frozen_input_weights() -> None:
    model = Loop(nn.RNNCell(3, 5).double())
    model.cell.weight_ih.requires_grad_(False)  # type: ignore[union-attr, operator]
    check_batch(model, sequences(4, 2, 5))
    loss = plait.batch(model)(sequences(4, 2, 5)).sum()
    loss.backward()
    assert model.cell.weight_ih.grad is None and model.cell.weight_hh.grad is not None


def test_a_product_that_cannot_be() -> None:
    """Nothing is hoisted from a call that cannot run: the message is PyTorch's own."""
    w = torch.ones(4, 5, dtype=D)

    def f(x: Tensor) -> Tensor:
        return F.linear(x[0], w)

    with pytest.raises(RuntimeError, match=r"reduction dim|shapes cannot be multiplied|size mismatch"):
        plait.batch(f)(sequences(4, 2, 5))
