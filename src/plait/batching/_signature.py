"""What makes two waiting calls the same call: an interned signature per program and per set of shared tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from plait.batching._program import Program, Rows


@contextmanager
def autocast(state: Any) -> Iterator[None]:
    """Autocast as it was where the call was made."""
    with ExitStack() as stack:
        for device, on, dtype in state or ():
            if device == "cpu" or torch.cuda.is_available():
                stack.enter_context(torch.autocast(device, dtype, on))
        yield


class Sig:
    """One kind of call in one run; nodes with the same `Sig` may run together."""

    __slots__ = (
        "autocast",
        "hoist",
        "hoisted",
        "in_metas",
        "index",
        "ins",
        "kind",
        "name",
        "out_rows",
        "out_spaces",
        "out_tracks",
        "outs",
        "own",
        "program",
        "ragged",
        "seen",
        "shared",
        "simple",
        "tracks",
        "weights",
    )

    def __init__(
        self, index: int, name: str, program: Program | None, shared: list[Tensor], kind: str = "program"
    ) -> None:
        self.index = index
        self.name = name
        self.program = program
        self.shared = shared
        self.kind = kind
        self.ragged = False
        self.autocast: Any = False  # devices and dtypes, if autocast was on
        self.in_metas: list[Any] = []  # (inner shape, ragged, space, rows per example or -1 for ragged)
        self.out_spaces: list[Any] = []
        self.out_rows: list[int] = []  # rows per example, or -1 for ragged
        self.out_tracks: list[bool] = []
        self.weights: list[Any] | None = None  # see `ready`
        self.ins: list[Any] = []  # arenas that the inputs' rows are in
        self.outs: list[Any] = []
        self.simple = False  # rows go in and come out as they are
        self.tracks = False
        self.hoist: Any = None  # what of the program depends on one input alone, if that is worth a call of its own
        self.own: tuple[int, ...] = ()  # inputs that the program writes into
        self.hoisted: Any = None  # ... once it has been made
        self.seen = 0  # calls that have run

    def ready(self, ins: list[Any], outs: list[Any]) -> None:
        """Everything is known: the arenas, and from the program what the executor asks for each group."""
        self.ins, self.outs = ins, outs
        self.tracks = any(self.out_tracks)
        p = self.program
        if p is not None:
            self.simple = not any(
                ragged or inner != space.inner for inner, ragged, space, _ in self.in_metas
            ) and not any(
                p.vals[v].ragged or p.vals[v].inner != space.inner for v, space in zip(p.outs, self.out_spaces)
            )

    def load_weights(self) -> list[Any]:
        """The shared tensors without their autograd history, and after them each matrix transposed."""
        plain = [w.detach() for w in self.shared]
        self.weights = [*plain, *[w.t() if w.dim() == 2 else None for w in plain]]
        return self.weights

    def replay(self, rows: Rows, args: list[Tensor], shared: list[Tensor]) -> list[Tensor]:
        """The call through plain autograd."""
        assert self.program is not None
        with autocast(self.autocast):
            return self.program.interpret(rows, args, shared)

    def __repr__(self) -> str:
        return f"Sig({self.index}, {self.name})"


def scalar_key(a: Any) -> Any:
    """1, 1.0, True and 0.0, -0.0 are different arguments, though Python's equality says otherwise."""
    t = type(a)
    if t is int or t is str or a is None:
        return a if t is not int else (int, a)
    if t is float or t is complex:
        return (t, repr(a))
    if t is slice:
        return ("slice", scalar_key(a.start), scalar_key(a.stop), scalar_key(a.step))
    if t is tuple or t is list:
        return (t, tuple([scalar_key(x) for x in a]))
    try:
        hash(a)
    except TypeError:
        return (t, id(a))
    return (t, a)
