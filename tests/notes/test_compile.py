"""Refusals of compilers and tracers keep type and text, and get a note with the cause and the line."""

from pathlib import Path

import pytest
import torch
from torch import nn

import plait
from plait.notes import failure_of


def branch(x):
    y = x * 2
    if y.sum() > 0:  # branch
        return y
    return -y


def printed(x):
    y = x + 1
    print(y)  # printed
    return y


class Model(nn.Module):
    def forward(self, x):
        return x + 1 if x.max() > 1 else x  # model


def compiled(function):
    return lambda: torch.compile(function, fullgraph=True, backend="eager")(torch.ones(3))


PROGRAMS = {
    "compiled branch": (compiled(branch), "data-dependent-decision", "# branch"),
    "compiled print": (compiled(printed), "compile-gave-up", "# printed"),
    "export": (lambda: torch.export.export(Model(), (torch.ones(3),)), "data-dependent-decision", "# model"),
    "trace": (lambda: torch.fx.symbolic_trace(Model()), "data-dependent-decision", "# model"),
    "side": (
        lambda: torch.cond(torch.tensor(True), lambda v: v.add_(1), lambda v: v * 1, (torch.ones(2),)),  # side
        "impure-branch",
        "# side",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("caught_inside", [True, False])
def test_refusal(name, caught_inside):
    program, cause, mark = PROGRAMS[name]
    torch._dynamo.reset()
    with pytest.raises(Exception) as bare:
        program()
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught, plait.record() as recording:
        if caught_inside:
            with pytest.raises(Exception) as caught:
                program()
            raise caught.value
        program()
    assert caught.type is bare.type
    assert str(caught.value).splitlines()[0] == str(bare.value).splitlines()[0]
    failure = failure_of(caught.value)
    assert failure is not None and failure.cause == cause
    assert caught.value.__notes__ == [failure.note] and recording.failures == (failure,)
    line = Path(__file__).read_text().splitlines()[failure.place.line - 1]
    assert line.endswith(mark), line


def test_what_compiles_gets_no_note():
    torch._dynamo.reset()
    with plait.record() as recording:
        torch.compile(lambda x: torch.where(x > 0, x, -x), backend="eager")(torch.ones(3))
    assert recording.failures == ()


def test_an_error_of_a_backend_is_its_own():
    def broken(graph, inputs):
        raise ValueError("the backend itself")

    torch._dynamo.reset()
    with pytest.raises(Exception, match="the backend itself") as caught, plait.record():
        torch.compile(lambda x: x + 1, backend=broken)(torch.ones(3))
    assert failure_of(caught.value) is None
