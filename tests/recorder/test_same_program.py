"""Recording changes nothing that a program does: values, gradients, prints, errors, random streams."""

from __future__ import annotations

import pytest
import torch

from plait.testing import check_same_program

from .programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_the_same(name: str) -> None:
    seen = check_same_program(PROGRAMS[name])
    assert torch._C._len_torch_function_stack() == 0
    for step in seen.recording.steps:
        assert step.graph is None or seen.recording.graph_of(step).legal() == []


def test_a_difference_is_found() -> None:
    """The checker itself can fail."""
    runs = iter(range(10))
    with pytest.raises(AssertionError, match="result"):
        check_same_program(lambda: torch.tensor(next(runs)))
    with pytest.raises(AssertionError, match="printed"):
        check_same_program(lambda: print(next(runs)))
