"""What is kept from one batch to the next, and what is not."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import plait
from plait.batching import _deferred, _execute, _known
from plait.batching._current import local
from plait.testing import check_batch

XS = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 1, 4)]


def same(f: Any) -> None:
    """The batch gives what the loop gives now."""
    got = plait.batch(f)(XS)
    for a, b in zip(got, [f(x) for x in XS]):
        assert torch.allclose(a, b, atol=1e-6)


# ---------------------------------------------------------------------- what a trace depends on is looked at
def change_weights(m: Any) -> None:
    m[0].weight = nn.Parameter(torch.randn(4, 4))


def change_values(m: Any) -> None:
    with torch.no_grad():
        m[0].weight.mul_(-3)


def change_eps(m: Any) -> None:
    m[1].eps = 0.5


def change_slope(m: Any) -> None:
    m[2].negative_slope = 2.0


def change_bias(m: Any) -> None:
    m[0].bias = None


def change_width(m: Any) -> None:
    m[0] = nn.Linear(4, 2)
    m[1] = nn.LayerNorm(2)


def change_child(m: Any) -> None:
    m[2] = nn.Tanh()


def change_mode(m: Any) -> None:
    m.eval()


@pytest.mark.parametrize(
    "change",
    [change_weights, change_values, change_eps, change_slope, change_bias, change_width, change_child, change_mode],
)
def test_a_module_that_changed(change: Any) -> None:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.LeakyReLU())

    def f(x: Tensor) -> Tensor:
        return m(x).sum(0)

    for _ in range(2):
        same(f)
    change(m)
    for _ in range(2):
        same(f)


def test_a_frozen_weight_gets_no_gradient() -> None:
    m = nn.Linear(4, 4)
    for wanted in (True, False, True):
        m.weight.requires_grad_(wanted)
        m.zero_grad()
        plait.batch(lambda x: m(x).sum())(XS).sum().backward()
        assert (m.weight.grad is not None) == wanted


def test_the_default_dtype_is_looked_at() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.zeros(4) + x.double().sum(0) + torch.ones(4)

    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            same(f)
            assert plait.batch(lambda x: torch.zeros(3))(XS).dtype == dtype
    finally:
        torch.set_default_dtype(before)


def test_a_patched_forward_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    m = nn.Linear(4, 4)
    same(m)
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: F.linear(x, self.weight) * 2)
    same(m)


def test_a_cell_reads_what_it_likes() -> None:
    scale = [1.0]

    @plait.cell
    def step(x: Tensor) -> Tensor:
        return x.sum(0) * scale[0]

    for value in (1.0, -2.0):
        scale[0] = value
        same(step)


def test_traces_hold_no_weights() -> None:
    def run() -> Any:
        m = nn.Linear(4, 4)
        plait.batch(lambda x: m(x).sum())(XS).sum().backward()
        return weakref.ref(m.weight)

    seen = run()
    assert _known._KNOWN
    gc.collect()
    assert seen() is None


# ---------------------------------------------------------------------- memory is given back at once
def test_memory_is_given_back_without_a_search_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    start = _execute.Executor.__init__

    def init(self: Any, rt: Any) -> None:
        start(self, rt)
        made.append(weakref.ref(self))

    monkeypatch.setattr(_execute.Executor, "__init__", init)
    m = nn.RNNCell(4, 4)

    def f(x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for row in x:
            h = m(row, h)
            if h.sum() > 0:
                h = h * 0.5
        return h.sum()

    plait.batch(f)(XS).sum().backward()  # what the first call imports is no matter here
    made.clear()
    gc.collect()
    gc.disable()
    try:
        loss = plait.batch(f)(XS).sum()
        assert [r() is not None for r in made] == [True]
        loss.backward()
        assert [r() for r in made] == [None]
        with torch.no_grad():
            plait.batch(f)(XS)
        assert [r() for r in made] == [None, None]
    finally:
        gc.enable()


# ---------------------------------------------------------------------- modules that nobody could see beforehand
def test_a_module_found_on_the_way_is_deferred_too(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[type] = []
    defer = _deferred._defer
    monkeypatch.setattr(_deferred, "_defer", lambda classes: (met.extend(classes), defer(classes)))
    table = {"a": [nn.Linear(4, 4)]}

    def f(x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for row in x:
            h = table["a"][0](row) + h
        return h

    got = plait.batch(f)(XS)
    assert torch.allclose(got, torch.stack([f(x) for x in XS]), atol=1e-6)
    assert nn.Linear in met
    assert "__call__" not in nn.Linear.__dict__ and local.rt is None


# ---------------------------------------------------------------------- numbers that differ
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64])
def test_numbers_that_differ_are_rows(dtype: torch.dtype) -> None:
    xs = [torch.arange(1, 4).to(dtype) + i for i in range(12)]

    def f(x: Tensor, k: int) -> Tensor:
        for n in range(k % 4):
            x = (n + 1) * x - k
        return (x + k) / (k + 1) + (0.1 * k - x)

    got = plait.batch(f)
    ks = list(range(12))
    for a, b in zip(got(xs, ks), [f(x, k) for x, k in zip(xs, ks)]):
        assert a.dtype == b.dtype and torch.allclose(a.double(), b.double(), rtol=1e-6)
    if dtype == torch.float64:
        assert got.report.groups["add"].width > 4
        check_batch(f, [(x.clone().requires_grad_(), k) for x, k in zip(xs, ks)])


def test_zero_and_minus_zero_stay_apart() -> None:
    x = torch.tensor([1.0, -1.0])
    numbers = [1.0, 2.0, 3.0, 0.0, -0.0, float("inf"), float("nan")]
    got = plait.batch(lambda k: x * 1.0 / 1.0 * (torch.ones(2) + 0) * k, in_dims=0)(numbers)
    want = torch.stack([x * k for k in numbers])
    assert torch.equal(got.nan_to_num(7), want.nan_to_num(7)) and torch.equal(got.signbit()[3:5], want.signbit()[3:5])
