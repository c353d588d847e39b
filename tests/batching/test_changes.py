"""What the function changes while it runs: weights for one call, settings of modules, variables that cells read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import plait
from tests.batching.test_short_ways import XS, Two


# ---------------------------------------------------------------------- weights for one call
class Celled(Two):
    @plait.cell
    def step(self, x: Tensor) -> Tensor:
        return torch.tanh(self.first(x)) * self.second.bias

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + sum(self.step(row).sum() for row in x)


class InsideRNN(Two):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(self.first, nn.Tanh())  # type: ignore[assignment]
        self.rnn = nn.LSTM(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.rnn(x)[0].sum()


def through_a_function(m: nn.Module) -> Any:
    @plait.cell
    def cell(row: Tensor) -> Tensor:
        return m.first(row)  # type: ignore[operator]

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = m.first

        def forward(self, x: Tensor) -> Tensor:
            return sum(cell(row).sum() for row in x)  # type: ignore[return-value]

    return Rows()


def function_celled() -> Any:
    return through_a_function(Two())


@pytest.mark.parametrize(
    ("make", "per_example"),
    [(Two, False), (Celled, False), (InsideRNN, False), (function_celled, False), (Two, True)],
)
def test_other_weights_for_one_call(make: Any, per_example: bool) -> None:
    m = make()
    weights = {name: p.detach().mul(2).requires_grad_() for name, p in m.named_parameters()}

    def run(x: Tensor) -> Tensor:
        mine = {k: w * x.sum() for k, w in weights.items()} if per_example else weights
        return functional_call(m, mine, (x,)) - m(x) + functional_call(m, mine, (x,)).square()

    inputs = [*m.parameters(), *weights.values()]
    got, want = plait.batch(run)(XS), torch.stack([run(x) for x in XS])
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)
    for a, b in zip(torch.autograd.grad(got.sum(), inputs), torch.autograd.grad(want.sum(), inputs)):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("make", [Celled, function_celled])
def test_weights_of_an_example_in_a_cell_are_refused(make: Any) -> None:
    m = make()
    m(XS[0])
    plait.batch(m)(XS)  # now the cell with its own weights is known

    def run(x: Tensor) -> Tensor:
        return m(x) + functional_call(m, {name: p * x.sum() for name, p in m.named_parameters()}, (x,))

    with pytest.raises(plait.PlaitError, match="not among its arguments; pass it in"):
        plait.batch(run)(XS)


def test_reading_inside_of_another_call_is_refused() -> None:
    class Decides(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.first(x).sum() if self.second(x).sum() > 0 else x.sum()

    m = Decides()
    weights = {name: p.detach() * 2 for name, p in m.named_parameters()}
    with pytest.raises(plait.PlaitError, match=r"read inside of functional_call \(example 0\)"):
        plait.batch(lambda x: functional_call(m, weights, (x,)))(XS)
    got = plait.batch(m)(XS)  # without it, all is as before
    assert torch.allclose(got, torch.stack([m(x) for x in XS]), atol=1e-5)


# ---------------------------------------------------------------------- modules that the function changes
slope, pair, linear = nn.LeakyReLU(0.1), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.ReLU()), nn.Linear(4, 4)


def by_length(x: Tensor) -> Tensor:
    slope.negative_slope = 0.1 * len(x)
    return slope(x).sum()


def there_and_back(x: Tensor) -> Tensor:
    slope.negative_slope = 0.1
    before, slope.negative_slope = slope(x).sum(), 0.5
    after, slope.negative_slope = slope(x).sum(), 0.1
    return before * after


def other_child(x: Tensor) -> Tensor:
    before = pair(x).sum()
    pair[2] = nn.Tanh()
    after = pair(x).sum()
    pair[2] = nn.ReLU()
    return before + 2 * after


def hooked(x: Tensor) -> Tensor:
    before = linear(x).sum()
    handle = linear.register_forward_hook(lambda m, i, o: o * 2)
    after = linear(x).sum()
    handle.remove()
    return before + after * 3


def modes(x: Tensor) -> Tensor:
    pair.train()
    before = pair(x).sum()
    pair.eval()
    return before + pair(x).sum()


def made_inside(x: Tensor) -> Tensor:
    return nn.CrossEntropyLoss()(nn.LeakyReLU(0.1 * len(x))(x).sum(0), torch.tensor(1)) + slope(x).sum()


def other_forward(x: Tensor) -> Tensor:
    before = linear(x).sum()
    linear.forward = torch.sin  # type: ignore[method-assign]
    after = linear(x).sum()
    del linear.forward
    return before - after


@pytest.mark.parametrize("run", [made_inside, other_forward, by_length, there_and_back, other_child, hooked, modes])
def test_modules_that_change_on_the_way(run: Any) -> None:
    assert torch.allclose(plait.batch(run)(XS), torch.stack([run(x) for x in XS]), atol=1e-4)
    for cls in (nn.LeakyReLU, nn.Sequential, nn.Linear, nn.Dropout):
        assert "__setattr__" not in cls.__dict__ and "__call__" not in cls.__dict__


# ---------------------------------------------------------------------- what a cell reads besides its arguments
class Reading(nn.Module):
    """The cell reads `scale`, of itself and through a helper; `calls` is only counted."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.scale, self.factor, self.calls, self.name = nn.Linear(4, 4), 1.0, 1.0, 0, name

    def helper(self, h: Tensor) -> Tensor:
        return h * self.factor

    @plait.cell
    def step(self, h: Tensor) -> Tensor:
        return self.helper(torch.tanh(self.inner(h))) * self.scale + h.t()

    def forward(self, x: Tensor) -> Tensor:
        h = x.sum(0)
        for t in range(len(x)):
            setattr(self, self.name, t if self.name == "calls" else t + 1.0 if self.name != "t" else t)
            h = self.step(h)
        return h


@pytest.mark.parametrize(("name", "refused"), [("scale", True), ("factor", True), ("calls", False), ("t", False)])
def test_attributes_that_a_cell_reads_stay(name: str, refused: bool) -> None:
    m = Reading(name)
    if refused:
        with pytest.raises(plait.PlaitError, match=rf"reads `{name}` of Reading, which changes while the batch runs"):
            plait.batch(m)(XS)
    else:
        got = plait.batch(m)(XS)
        assert torch.allclose(got, torch.stack([m(x) for x in XS]), atol=1e-5)


factor = 1.0


@plait.cell
def with_global(h: Tensor, settings: Any) -> Tensor:
    return torch.tanh(h) * factor + settings.shift


class Settings:
    shift = 0.0


@pytest.mark.parametrize("what", ["global", "argument", "closure", "nothing"])
def test_variables_that_a_cell_reads_stay(what: str) -> None:
    settings, scale = Settings(), 1.0
    settings.shift = 0.0

    @plait.cell
    def with_closure(h: Tensor) -> Tensor:
        return torch.tanh(h) * scale

    def run(x: Tensor) -> Tensor:
        global factor
        nonlocal scale
        h = x.sum(0)
        for t in range(len(x)):
            if what == "global":
                factor = t + 1.0
            elif what == "argument":
                settings.shift = t + 1.0
            elif what == "closure":
                scale = t + 2.0
            h = with_closure(with_global(h, settings))
        return h

    global factor
    factor = 1.0
    if what == "nothing":
        assert torch.allclose(plait.batch(run)(XS), torch.stack([run(x) for x in XS]), atol=1e-5)
        return
    text = {"global": "the variable `factor`", "closure": "the variable `scale`", "argument": "`shift` of its argument"}
    with pytest.raises(plait.PlaitError, match=f"reads {text[what]}.*pass the value in as an argument"):
        plait.batch(run)(XS)


def test_modules_made_inside_leave_the_others_known() -> None:
    plait.batch(made_inside)(XS)  # `slope` is called once by each example, and is the same call in all of them
    from plait.batching._runtime import LaneRuntime

    changes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LaneRuntime, "forget_modules", lambda rt: changes.append(rt))
        plait.batch(made_inside)(XS)
    assert not changes
