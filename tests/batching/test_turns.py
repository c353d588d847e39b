"""What a `with` changes for the whole process belongs to the example that runs: examples take turns inside of it."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings

import pytest
from torch import Tensor

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
