"""Generated programs against the plain loop, forward and backward; failures found so far by name."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.testing import check_batch
from tests.batching.fuzz import one
from tests.batching.programs import Parts

PARTS = Parts()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 10**6), st.booleans())
def test_random_programs(seed: int, double: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one(seed, PARTS, double and seed % 3 == 0)


@pytest.mark.parametrize("seed", [23, 73, 110, 125, 130, 131, 140, 310, 2095, 2477, 13346, 50091])
def test_programs_that_once_failed(seed: int) -> None:
    one(seed, PARTS, seed % 5 == 0)


def mats() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 2, 4)]


def test_one_leaf_made_of_another() -> None:
    """With create_graph, what a leaf was made of got its gradient twice: once directly, once behind the batch."""
    x, w = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True), PARTS.w
    both = torch.cat([w, w.t()], 1)

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ w * b).tanh().sum() + (a @ both).sin().sum()

    check_batch(f, list(zip(x, x * 2)), double_backward=True)


def test_constant_written_by_one_example_is_fresh_for_the_next() -> None:
    """`torch.zeros` is made once for all lanes; the first lane's write went into the shared handle."""

    def f(x: torch.Tensor) -> Any:
        m = torch.zeros(3, 4, dtype=torch.float64)
        row = m[1]
        row += x[0]
        return m, row

    check_batch(f, mats())


def test_view_looked_at_again_inside_no_grad() -> None:
    """A tensor view that is refreshed under no_grad keeps the gradient that it had when it was taken."""

    def f(x: torch.Tensor) -> Any:
        m = x.clone()
        v = m[0]
        m[1] += x[0]
        with torch.no_grad():
            t = torch.tanh(v)
        return v * 2 + t

    check_batch(f, mats())


def test_row_taken_under_no_grad_has_no_gradient() -> None:
    def f(x: torch.Tensor) -> Any:
        h = x * 2
        with torch.no_grad():
            r = h[0]
        return r * h[1]

    check_batch(f, mats())


def test_detached_rows_next_to_live_ones() -> None:
    """A detached value shares its rows with the live one: a join of both must not pass the gradient on."""

    def f(x: torch.Tensor) -> Any:
        h = torch.tanh(x[0])
        return torch.stack([h.detach(), h, x[1]])

    check_batch(f, mats(), double_backward=True)


def test_methods_and_functions_with_loose_dimensions() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.flip(0, 1), x.reshape(-1), x.view(-1, 2, 2).permute(0, 2, 1), x[:2].repeat(2, 1), x.flip(0)

    check_batch(f, mats())


def test_sum_and_mean_over_rows_do_not_share_code() -> None:
    """Both wrote the same source; the compiled function of one served the other."""

    def f(x: torch.Tensor) -> Any:
        m = x.detach()
        return m.sum(0) if len(x) == 3 else m.mean(0)

    check_batch(f, mats())


def test_vector_of_ragged_length_is_not_summed_over_as_rows() -> None:
    """Four numbers that came out of a mask look like four rows of one number; a product sums over them."""
    w = torch.randn(2, 4, dtype=torch.float64)

    def f(x: torch.Tensor) -> Any:
        v = x[0][torch.ones(4, dtype=torch.bool)]
        return torch.nn.functional.linear(v, w), w @ v, v @ v, v.softmax(0)

    check_batch(f, mats())
