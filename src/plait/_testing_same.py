"""Public checkers: what a test of a program that plait touches wants to know."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree

import plait
from plait._torch import mode_depth


@dataclass(frozen=True)
class Outcome:
    """What one run of a program did, as far as anyone can tell from outside."""

    result: Any
    error: str | None
    gradients: tuple[torch.Tensor | None, ...]
    printed: str
    errors_printed: str
    random_states: tuple[Any, ...]


@dataclass(frozen=True)
class SameProgram:
    """The two runs of `check_same_program`, and the recording of the second."""

    bare: Outcome
    recorded: Outcome
    recording: plait.Recording = field(repr=False)


def check_same_program(program: Callable[[], Any], *, seed: int = 0) -> SameProgram:
    """Run `program` bare and recorded and compare everything a person could notice.

    Compared bit for bit: what it returns (any nesting of tensors and plain values), the gradients of every tensor it
    returns or whose parameters it returns in a module, what it prints, the error it raises (type and text), and the
    states of the random streams of torch and Python afterwards.

    >>> import torch
    >>> from plait.testing import check_same_program
    >>> check_same_program(lambda: torch.randn(3).sum()).recording
    <plait.Recording: 1 step, 1 distinct graph>

    Raises:
        AssertionError: the runs differ; the message says in what.
    """
    bare = _run(program, seed, None)
    record = plait.record()
    recorded = _run(program, seed, record)
    for name, one, other in (
        ("error", bare.error, recorded.error),
        ("printed text", bare.printed, recorded.printed),
        ("text printed on stderr", bare.errors_printed, recorded.errors_printed),
    ):
        assert one == other, f"recording changed the {name}: {one!r} bare, {other!r} recorded"
    _same("result", bare.result, recorded.result)
    _same("gradients", bare.gradients, recorded.gradients)
    _same("random state", bare.random_states, recorded.random_states)
    depth = mode_depth()
    assert depth == 0 or record.active is False, "the recording left its mode on PyTorch's stack"
    return SameProgram(bare, recorded, record)


def _run(program: Callable[[], Any], seed: int, record: Any) -> Outcome:
    torch.manual_seed(seed)
    random.seed(seed)
    printed, errors = io.StringIO(), io.StringIO()
    result, error = None, None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        try:
            if record is None:
                result = program()
            else:
                with record:
                    result = program()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    states = (torch.get_rng_state(), random.getstate())
    return Outcome(result, error, _gradients(result), printed.getvalue(), errors.getvalue(), states)


def _gradients(result: Any) -> tuple[torch.Tensor | None, ...]:
    leaves: list[torch.Tensor] = []
    for each in _pytree.tree_leaves(result):
        if isinstance(each, torch.nn.Module):
            leaves += each.parameters()
        elif isinstance(each, torch.Tensor) and each.is_leaf:
            leaves.append(each)
    return tuple(leaf.grad for leaf in leaves)


def _same(what: str, one: Any, other: Any) -> None:
    left, right = _pytree.tree_leaves(one), _pytree.tree_leaves(other)
    assert len(left) == len(right), f"recording changed the {what}: {len(left)} parts bare, {len(right)} recorded"
    for index, (a, b) in enumerate(zip(left, right)):
        where = f"recording changed the {what} (part {index})"
        if isinstance(a, torch.nn.Module):
            _same(f"{what}'s parameters", dict(a.state_dict()), dict(b.state_dict()))
        elif isinstance(a, torch.Tensor):
            assert isinstance(b, torch.Tensor), f"{where}: a tensor bare, {type(b).__name__} recorded"
            assert a.dtype == b.dtype and a.shape == b.shape, f"{where}: {a.dtype} {tuple(a.shape)} bare"
            assert a.requires_grad == b.requires_grad, f"{where}: requires_grad {a.requires_grad} bare"
            same = torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
            assert same, f"{where}: other values"
        else:
            assert type(a) is type(b) and (a == b or (a != a and b != b)), f"{where}: {a!r} bare, {b!r} recorded"
