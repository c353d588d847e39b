"""Every program of `wrong.py` gets a note with its cause and its line; ordinary errors and healthy programs none."""

import contextlib
import inspect
import traceback

import pytest
import torch
from torch import nn

import plait
from plait.notes import failure_of
from tests.notes import wrong

PROGRAMS = {name: each for name, each in vars(wrong).items() if "__" in name and not name.startswith("_")}
MARKED = [number for number, line in enumerate(inspect.getsource(wrong).splitlines(), 1) if "# <-" in line]


def error_of(program):
    with plait.record() as recording:
        try:
            program()
        except Exception as error:
            return error, recording
    return None, recording


@pytest.mark.parametrize("name", PROGRAMS)
def test_cause_and_line(name):
    program = PROGRAMS[name]
    with pytest.raises(Exception) as bare:
        program()
    error, recording = error_of(program)
    assert error is not None, "the program did not fail"
    assert type(error) is bare.type
    assert _plain(str(error)) == _plain(str(bare.value))
    failure = failure_of(error)
    assert failure is not None, "there is no note"
    assert failure.cause == name.partition("__")[0].replace("_", "-")
    assert failure.place is not None
    assert failure.place.line in _lines(program), str(failure)
    assert failure.place.line in MARKED
    assert error.__notes__[-1] == failure.note
    assert recording.failures[-1] == failure
    for sentence in (failure.fact, failure.consequence, failure.cure):
        assert sentence[0].isupper() or sentence[0] == "`"
        assert sentence.endswith((".", ")"))


def _plain(text):
    return "".join(each for each in text if not each.isdigit())


def _lines(program):
    """The marked lines of the program and of the helpers in its neighbourhood."""
    first = program.__code__.co_firstlineno
    last = first + len(inspect.getsource(program).splitlines())
    return [line for line in MARKED if first - 20 <= line <= last]


def test_a_note_stands_in_the_traceback():
    error, _ = error_of(wrong.inplace_on_saved_tensor__result)
    text = "".join(traceback.format_exception(error))
    assert "plait: " in text and text.index("modified by an inplace") < text.index("plait: ")


def _shapes():
    torch.ones(2) + torch.ones(3)


def _of_python():
    {}["key"]


def _custom():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("the program's own")

    Bad.apply(torch.ones(2, requires_grad=True)).sum().backward()


def _wrong_type():
    torch.ones(2).to("nowhere")


@pytest.mark.parametrize("program", [_shapes, _of_python, _custom, _wrong_type])
def test_ordinary_errors_get_no_note(program):
    error, recording = error_of(program)
    assert failure_of(error) is None
    assert getattr(error, "__notes__", []) == []
    assert recording.failures == ()


def _retained():
    w = torch.ones(2, requires_grad=True)
    loss = (w**2).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def _truncated():
    cell, h = nn.RNNCell(2, 3), torch.zeros(1, 3)
    for _ in range(3):
        h = cell(torch.ones(1, 2), h.detach())
        h.sum().backward()


def _write_before_save():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y += 1
    (y**2).sum().backward()


@pytest.mark.parametrize("program", [_retained, _truncated, _write_before_save])
def test_healthy_look_alikes(program):
    error, recording = error_of(program)
    assert error is None
    assert recording.failures == ()


def test_notes_do_not_pile_up_when_errors_are_control_flow():
    with plait.record() as recording:
        x = torch.ones(3, requires_grad=True)
        for _ in range(100):
            with contextlib.suppress(RuntimeError):
                x.add_(1)
    assert 0 < len(recording.failures) <= 50
