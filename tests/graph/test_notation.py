"""Every example in the docstrings of the torch-free half runs."""

import doctest
from importlib import import_module

import pytest

from handmade import product

MODULES = [
    "plait.decisions._arms",
    "plait.graph._executions",
    "plait.graph._builder", "plait.graph._notation", "plait.graph._source", "plait.views._lines",
    "plait.views._source", "plait.views._theme",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert failed == 0 and tried > 0


def test_html_of_a_graph() -> None:
    tape = product()
    tape.tokens = list(next(iter(tape.graphs)))
    html = tape.graph()._repr_html_()
    assert "&lt;plait.Graph: 2 ops, 2 inputs" in html
    assert "<td>z</td><td>mul</td><td>x, y</td><td>f32[3]</td><td>5: x * y</td>" in html
