"""The pytest plugin, run in pytests of its own."""

import pytest
import torch

import plait.checks
import plait.recorder
import plait.rules  # what is imported before pytester takes its picture of sys.modules stays

pytest_plugins = ["pytester"]
_ = torch, plait

BAD_AND_GOOD = """
import pytest, torch
from torch import nn

@pytest.mark.plait
def test_good():
    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()

@pytest.mark.plait("correctness")
def test_bad():
    w = torch.ones(3, requires_grad=True)
    y = torch.exp(w)
    y += 1
    with pytest.raises(RuntimeError):
        y.sum().backward()

@pytest.mark.plait("correctness", ignore="inplace-on-saved-tensor")
def test_ignored():
    w = torch.ones(3, requires_grad=True)
    y = torch.exp(w)
    y += 1
    with pytest.raises(RuntimeError):
        y.sum().backward()

@pytest.mark.plait
def test_own_failure():
    assert torch.ones(1).item() == 2

def test_without_marker():
    w = torch.ones(3, requires_grad=True)
    y = torch.exp(w)
    y += 1
    with pytest.raises(RuntimeError):
        y.sum().backward()
"""

FIXTURES = """
import torch
from torch import nn

class Branchy(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else self.b(x)

def mean(x):
    return x.mean(1)

def test_independent(assert_independent):
    assert_independent(nn.Linear(3, 2), torch.randn(4, 3))

def test_dependent(assert_independent):
    assert_independent(lambda x: x - x.mean(0), torch.randn(4, 3))

def test_padding(assert_padding_invariant):
    assert_padding_invariant(lambda x: x.sum(1), [torch.ones(3, 2), torch.ones(2, 2)])

def test_padding_leaks(assert_padding_invariant):
    assert_padding_invariant(mean, [torch.ones(3, 2), torch.ones(2, 2)])

def test_gradients(assert_gradients_reach):
    model = nn.Linear(2, 2)
    assert_gradients_reach(model, lambda: model(torch.ones(1, 2)).sum())
    assert model.weight.grad is None

def test_no_gradients(assert_gradients_reach):
    model = Branchy()
    assert_gradients_reach(model, lambda: model(torch.ones(1, 2)).sum())
"""

GRAPH = """
import torch

def model(x):
    if x.mean() > 0:
        return torch.relu(x)
    return torch.tanh(x)

def test_graph(assert_same_graph):
    assert_same_graph(model, torch.full((VALUES,), SIGN))
"""


def test_marker(pytester):
    pytester.makepyfile(BAD_AND_GOOD)
    result = pytester.runpytest()
    result.assert_outcomes(passed=3, failed=2)
    text = result.stdout.str()
    assert "plait found something" in text and "test_marker.py:13" in text and "inplace-on-saved-tensor" in text
    assert "assert 1.0 == 2" in result.stdout.str()


def test_assertions_as_fixtures(pytester):
    pytester.makepyfile(FIXTURES)
    result = pytester.runpytest()
    result.assert_outcomes(passed=3, failed=3)
    text = result.stdout.str()
    assert all(f"_ {name} _" in text for name in ("test_dependent", "test_padding_leaks", "test_no_gradients"))
    assert "`x.mean(0)`" in text
    assert "no gradient to b.weight, b.bias (2 of 4 parameters)" in text and "`x.sum() > 0` was True" in text


def test_stored_graph(pytester):
    def run(values, sign, *options):
        pytester.makepyfile(test_it=GRAPH.replace("VALUES", str(values)).replace("SIGN", str(sign)))
        return pytester.runpytest(*options)

    missing = run(3, 1.0)
    missing.assert_outcomes(failed=1)
    assert "--plait-update" in missing.stdout.str()
    run(3, 1.0, "--plait-update").assert_outcomes(passed=1)
    run(3, 1.0).assert_outcomes(passed=1)
    run(5, 1.0).assert_outcomes(passed=1)
    other = run(3, -1.0)
    other.assert_outcomes(failed=1)
    assert "x.mean() > 0" in other.stdout.str()


def test_a_wrong_rule_is_one_sentence(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.plait('no-such-rule')\ndef test_a(): pass\n")
    result = pytester.runpytest()
    assert "no-such-rule" in result.stdout.str() and result.ret != pytest.ExitCode.OK


def test_nothing_happens_until_it_is_switched_on(pytester):
    pytester.makepyfile("import sys\ndef test_a(): assert 'plait.recorder' not in sys.modules\n")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
