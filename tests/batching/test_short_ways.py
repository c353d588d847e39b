"""What examples find at once while they run, and that it gives what the long way gives and is gone afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import plait
from plait import _torch as private
from plait.testing import check_batch

XS = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 1, 4, 2)]


def ways() -> list[Any]:
    return [getattr(space, private.HANDLE) for space in private.PYTHON_API]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x)))).sum()


# ---------------------------------------------------------------------- gone afterwards
def test_nothing_stays_behind() -> None:
    m, before = Two(), ways()
    plait.batch(m)(XS)

    def fails(x: Tensor) -> Tensor:
        if len(x) == 4:
            raise KeyError("here")
        return m(x)

    with pytest.raises(KeyError):
        plait.batch(fails)(XS)
    assert ways() == before
    assert "first" not in m.__dict__ and "second" not in m.__dict__


def test_inside_of_one_another() -> None:
    m, before = Two(), ways()
    outer = plait.batch(lambda x: plait.batch(lambda row: F.relu(row).sum())(list(x)).sum() + m(x))
    assert torch.allclose(outer(XS), torch.stack([F.relu(x).sum() + m(x) for x in XS]), atol=1e-5)
    assert ways() == before


# ---------------------------------------------------------------------- children of modules
def test_a_child_exchanged_on_the_way() -> None:
    m = Two()
    other = nn.Linear(4, 4)

    def run(x: Tensor) -> Tensor:
        old = m.first
        m.first = other
        y = m(x)
        m.first = old
        return y + m(x)

    assert torch.allclose(plait.batch(run)(XS), torch.stack([run(x) for x in XS]), atol=1e-5)
    assert "first" not in m.__dict__


# ---------------------------------------------------------------------- functions of torch.nn.functional
def test_a_mode_of_the_example_sees_the_functions() -> None:
    class Double(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * 2 if func in (F.relu, F.softplus) else out

    def run(x: Tensor) -> Tensor:
        plain = F.softplus(x).sum()
        with Double():
            return plain + F.softplus(x).sum() + F.relu(x).sum()

    for _ in range(2):
        assert torch.allclose(plait.batch(run)(XS), torch.stack([run(x) for x in XS]), atol=1e-5)


def test_words_that_differ_are_other_calls() -> None:
    def run(x: Tensor) -> Tensor:
        y = F.softmax(x, dim=0) + F.softmax(x, dim=1) + F.softmax(x, 0) + F.elu(x, 0.5) + F.elu(x, alpha=2.0)
        return y.sum(0).mul(x.sum(dim=0)).max() + x.mean(0, keepdim=True).sum() + x.std()

    check_batch(run, [x.clone().requires_grad_() for x in XS if len(x) > 1])


# ---------------------------------------------------------------------- numbers that are read
def test_reading_lists_items_and_elements() -> None:
    w = torch.randn(4, 3, requires_grad=True)

    def run(x: Tensor) -> Tensor:
        total = x.new_zeros(())
        for row in x:
            scores = row @ w
            best = max(range(3), key=scores.tolist().__getitem__)
            total = total + torch.log_softmax(scores, 0)[best] * (2.0 if scores[best].item() > 1 else 1.0)
            if scores.sum().item() < 0:
                total = total + scores[-1]
        return total

    check_batch(run, [x.clone().requires_grad_() for x in XS])


def test_an_element_is_a_view() -> None:
    def run(x: Tensor) -> Tensor:
        y = torch.zeros(4)
        for row in x:
            y = y + row
            first, second = y[0], y[1]
            y[0] = second * 3
            y[1] = first.item() + 1.0
            second.mul_(2)
        return y

    got = plait.batch(run)(XS)
    assert torch.allclose(got, torch.stack([run(x) for x in XS]), atol=1e-5)


def test_item_of_more_than_one_number() -> None:
    with pytest.raises(RuntimeError, match="4 elements"):
        plait.batch(lambda x: x.sum(0).item())(XS)


# ---------------------------------------------------------------------- constants as arguments of cells
class Starts(nn.Module):
    """Rows of a parameter go into a cell where an example has nothing of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.empty = nn.Parameter(torch.randn(2, 4))
        self.mix = nn.Linear(8, 4)

    @plait.cell
    def join(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(self.mix(torch.cat([a, b])))

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.empty
        h = self.join(left, right)  # no row of the example at all
        for row in x:
            h = self.join(h, row) + self.join(left, row) * self.join(row, right).sum()
            if h.sum() > 0:
                h = self.join(h, left)
        return h @ left


def test_rows_of_a_parameter_in_cells() -> None:
    check_batch(Starts(), [x.clone().requires_grad_() for x in XS])


# ---------------------------------------------------------------------- gradients of a hoisted product
@pytest.mark.parametrize("tracked", [False, True])
def test_many_rows_used_twice_and_a_second_way_back(tracked: bool) -> None:
    torch.manual_seed(2)
    cell, again = nn.LSTMCell(4, 3), nn.RNNCell(4, 3)
    g = torch.Generator().manual_seed(5)
    xs = [torch.randn(20 + n, 4, generator=g).requires_grad_(tracked) for n in range(30)]
    weights = [*cell.parameters(), *again.parameters()]

    def run(x: Tensor) -> Tensor:
        h = c = torch.zeros(3)
        for t in range(len(x)):
            h, c = cell(x[t], (h, c))
            h, c = cell(x[len(x) - 1 - t], (h, c))
            h = again(x[t], h)
        return h.sum()

    want = torch.autograd.grad(torch.stack([run(x) for x in xs]).sum(), [*weights, *(xs if tracked else [])])
    total = plait.batch(run)(xs).sum()
    for keep in (True, False):
        got = torch.autograd.grad(total, [*weights, *(xs if tracked else [])], retain_graph=keep)
        for a, b in zip(got, want):
            assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("model", [nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), nn.GRU(4, 4)])
def test_a_second_way_back_through_a_module(model: Any) -> None:
    first: Any = (lambda y: y) if isinstance(model, nn.TransformerEncoderLayer) else (lambda y: y[0])
    total = plait.batch(lambda x: first(model(x)).square().sum())(XS).sum()
    want = torch.autograd.grad(sum(first(model(x)).square().sum() for x in XS), list(model.parameters()))
    for keep in (True, True, False):
        got = torch.autograd.grad(total, list(model.parameters()), retain_graph=keep)
        for a, b in zip(got, want):
            assert torch.allclose(a, b, atol=1e-4, rtol=1e-4)
