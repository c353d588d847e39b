"""Functions of torch that are written in C come straight to the core while examples run: what they are, what they give,
and that nothing of it stays."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, cat, relu
from torch.overrides import TorchFunctionMode

import plait
from plait.batching._core_choice import NATIVE
from plait.testing import check_batch

AUTOCAST = torch.set_autocast_enabled
XS = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 1, 4, 2)]
VECTORCALL = 6 * ctypes.sizeof(ctypes.c_void_p)  # in CPython's PyCFunctionObject, after six other pointers


def ways() -> list[Any]:
    return [
        ctypes.c_void_p.from_address(id(f) + VECTORCALL).value for f in (torch.relu, F.linear, torch.zeros, AUTOCAST)
    ]


AUTOCAST = torch.set_autocast_enabled


# ---------------------------------------------------------------------- gone afterwards
@pytest.mark.skipif(not NATIVE, reason="the Python core has no short ways")
def test_they_are_there_and_go_away() -> None:
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(ways())
        return torch.relu(x).sum()

    assert ways() == [None] * 4
    plait.batch(f)(XS)
    assert all(seen[0])
    assert ways() == [None] * 4

    def fails(x: Tensor) -> Tensor:
        raise KeyError("here")

    with pytest.raises(KeyError):
        plait.batch(fails)(XS)
    assert ways() == [None] * 4


def test_a_batch_that_ends_while_another_runs() -> None:
    """Two threads: what the first takes away at its end must still be right for the second."""
    inside, ended, found = threading.Event(), threading.Event(), []

    def long(x: Tensor) -> Tensor:
        inside.set()
        ended.wait(20)
        return torch.relu(torch.relu(x) - 0.1).sum()

    thread = threading.Thread(target=lambda: found.append(plait.batch(long)(XS)))
    thread.start()
    assert inside.wait(20)
    short = plait.batch(lambda x: torch.relu(x).sum())(XS)
    ended.set()
    thread.join()
    assert torch.allclose(short, torch.stack([relu(x).sum() for x in XS]))
    assert torch.allclose(found[0], torch.stack([relu(relu(x) - 0.1).sum() for x in XS]))


def test_another_thread_has_its_own_torch() -> None:
    found = []

    def elsewhere() -> None:
        found.append((torch.relu(torch.tensor([-1.0, 2.0])), torch.zeros(2), torch.cat([torch.ones(1)] * 2)))

    def f(x: Tensor) -> Tensor:
        for _ in range(2):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        return torch.relu(x).sum()

    plait.batch(f)(XS)
    assert len(found) == 8
    for a, b, c in found:
        assert [type(t) for t in (a, b, c)] == [Tensor] * 3
        assert a.tolist() == [0, 2] and b.tolist() == [0, 0] and c.tolist() == [1, 1]


# ---------------------------------------------------------------------- what they are
def test_a_function_stays_itself() -> None:
    def f(x: Tensor, act: Any) -> Tensor:
        return (act(x) if act is torch.relu else act(x) * 100).sum()

    assert check_batch(f, [(x, torch.relu) for x in XS])


def test_names_imported_before_and_functions_passed_on() -> None:
    join = functools.partial(cat, dim=0)

    def f(x: Tensor) -> Tensor:
        rows = list(map(relu, x))
        both = join([torch.stack(rows), torch.stack(tensors=rows, dim=0)])
        return torch.tanh(input=both).sum() + torch.sum(both, dim=1).max() + functools.reduce(torch.add, rows).sum()

    assert check_batch(f, [(x,) for x in XS])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.relu(),
        lambda x: torch.relu(x, x),
        lambda x: torch.relu(x, wrong=1),
        lambda x: torch.cat([x, x], 0, dim=0),
        lambda x: torch.cat([x, torch.zeros(2, 3)]),
        lambda x: torch.mm(x, x.new_zeros(5, 5)),
    ],
)
def test_wrong_calls_say_what_pytorch_says(call: Any) -> None:
    with pytest.raises((TypeError, RuntimeError)) as alone:
        call(XS[1])
    for _ in range(2):
        with pytest.raises(type(alone.value)):
            plait.batch(call)(XS)


def test_a_call_right_for_some_examples_only() -> None:
    """The core knows the call by its shapes: another shape must not pass as one that was seen."""
    xs = [torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 4)]
    with pytest.raises(RuntimeError, match=r"reduction dim|cannot be multiplied"):
        plait.batch(lambda x: torch.mm(x, torch.ones(3, 1)).sum())(xs)


# ---------------------------------------------------------------------- who else wants to see a call
class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_function_sees_its_calls() -> None:
    seen = []

    def f(x: Tensor) -> Tensor:
        x = torch.relu(x)
        with Counting() as mode:
            x = torch.relu(x)
            x = torch.relu(x)
        seen.append(mode.names)
        return torch.relu(x).sum()

    got = plait.batch(f)(XS)
    assert torch.allclose(got, torch.stack([relu(x).sum() for x in XS]))
    assert [names.count("relu") for names in seen] == [2] * 4


def test_a_device_of_the_function() -> None:
    """`with torch.device(...)` is a mode: a factory's result depends on it."""

    def f(x: Tensor) -> Tensor:
        a = torch.zeros(4)
        with torch.device("meta"):
            b = torch.zeros(4)
        c = torch.zeros(4)
        assert (a.device.type, b.device.type, c.device.type) == ("cpu", "meta", "cpu")
        return (x + a + c).sum()

    for _ in range(2):
        assert torch.allclose(plait.batch(f)(XS), torch.stack([x.sum() for x in XS]))


# ---------------------------------------------------------------------- autocast
@pytest.fixture
def no_autocast_left() -> Iterator[None]:
    yield
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("way", ["context", "function", "old function"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_autocast_that_some_examples_turn_on_late(way: str, no_autocast_left: None) -> None:
    w = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))

    def f(x: Tensor) -> Tensor:
        a = torch.mm(x, w)
        assert torch.mm(x, w).dtype == torch.float32
        if len(x) % 2:
            if way == "context":
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    b = torch.mm(x, w)
            else:
                turn = torch.set_autocast_cpu_enabled if way[:3] == "old" else functools.partial(AUTOCAST, "cpu")
                torch.set_autocast_dtype("cpu", torch.bfloat16)
                turn(True)
                b = torch.mm(x, w)
                turn(False)
            assert b.dtype == torch.bfloat16
        else:
            b = torch.mm(x, w)
            assert b.dtype == torch.float32
        c = torch.mm(x, w)
        if c.sum() > 0:
            c = c * 2
        return a.sum() + b.float().sum() + c.sum()

    got = plait.batch(f)(XS)
    assert torch.allclose(got, torch.stack([f(x) for x in XS]), atol=1e-5)
