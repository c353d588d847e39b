"""Examples take turns, and so do threads: what a `with` changes for the whole process belongs to the example that runs,
and what one thread is about to make is not half seen by another."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import plait
from tests.batching.test_sharp_edges import rows


def test_redirected_output_belongs_to_the_example() -> None:
    texts: dict[int, str] = {}
    before = sys.stdout

    def f(x: Tensor) -> Tensor:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            for k, row in enumerate(x):
                if row.sum() > 0:
                    print(len(x), k)
            print(f"{x.sum().item():.3f}")
        texts[len(x)] = text.getvalue()
        return x.sum()

    xs = rows(3, 2, 4)
    plait.batch(f)(xs)
    got = dict(texts)
    for x in xs:
        f(x)
    assert got == texts and sys.stdout is before


def test_caught_warnings_belong_to_the_example() -> None:
    seen: dict[int, list[str]] = {}
    before = warnings.filters

    def f(x: Tensor) -> Tensor:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for k, row in enumerate(x):
                if row.sum() > 0:
                    warnings.warn(f"{len(x)} {k}", stacklevel=1)
        seen[len(x)] = [str(w.message) for w in caught]
        return x.sum()

    xs = rows(3, 2, 4)
    plait.batch(f)(xs)
    got = dict(seen)
    for x in xs:
        f(x)
    assert got == seen and warnings.filters is before


def test_an_error_leaves_the_output_as_it_was() -> None:
    before = sys.stdout

    def f(x: Tensor) -> Tensor:
        with contextlib.redirect_stdout(io.StringIO()):
            if x.sum() > -99 and len(x) == 2:
                raise KeyError("here")
            return x.sum() if x[0].sum() > 0 else x.mean()

    with pytest.raises(KeyError):
        plait.batch(f)(rows(3, 2, 4))
    assert sys.stdout is before


def test_threads_that_meet_the_same_new_program() -> None:
    """What one thread is about to compile must not be half seen by another."""
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for width in range(40, 46):  # programs that nobody has made yet
            torch.manual_seed(width)
            net = nn.Sequential(nn.Linear(width, width), nn.Tanh())
            xs = [torch.randn(n, width) for n in (3, 1, 4)]

            def f(x: Tensor, net: nn.Module = net, width: int = width) -> Tensor:
                h = torch.zeros(width)
                for row in x:
                    h = net(row) + h
                    if h.sum() > 0:
                        h = torch.relu(h) * 0.5
                return h.sum()

            start = threading.Barrier(4)

            def gradient(
                f: Any = f, net: nn.Module = net, xs: list[Tensor] = xs, start: threading.Barrier = start
            ) -> list[Tensor]:
                start.wait()
                return list(torch.autograd.grad(plait.batch(f)(xs).sum(), list(net.parameters())))

            with ThreadPoolExecutor(4) as pool:
                found = [job.result() for job in [pool.submit(gradient) for _ in range(4)]]
            want = torch.autograd.grad(sum(f(x) for x in xs), list(net.parameters()))
            assert all(torch.allclose(a, b, atol=1e-4) for each in found for a, b in zip(each, want))
    finally:
        sys.setswitchinterval(switch)
