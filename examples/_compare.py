"""Runs a batched function and the plain loop beside it, and says whether they agree and what they cost."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

import plait


def compare(one: Any, columns: tuple[list[Any], ...], model: nn.Module, **options: Any) -> None:
    """`one(*example)` is the loss of one example; prints values, gradients and times of both ways."""
    n = len(columns[0])
    batched = plait.batch(one, **options)
    results = []
    for run in (lambda: torch.stack([one(*e) for e in zip(*columns)]).mean(), lambda: batched(*columns).mean()):
        times = []
        for _ in range(3):
            model.zero_grad()
            start = time.perf_counter()
            loss: Tensor = run()
            loss.backward()
            times.append(time.perf_counter() - start)
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append((float(loss.detach()), gradients, min(times)))
    (a, ga, ta), (b, gb, tb) = results
    top = max(float(g.abs().max()) for g in ga)
    error = max(float((x - y).abs().max()) for x, y in zip(ga, gb)) / top
    print(f"{n} examples, loss {a:.4f} in the loop, {b:.4f} batched; gradients differ by {error:.1e} of the largest")
    print(f"forward and backward: loop {ta * 1e3:.0f} ms, plait.batch {tb * 1e3:.0f} ms: {ta / tb:.1f} times as fast")
    assert abs(a - b) < 1e-3 * max(1.0, abs(a)) and error < 1e-3
    print(batched.report)


def threads(n: int = 1) -> None:
    torch.set_num_threads(n)
    torch.manual_seed(0)
