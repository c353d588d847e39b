"""What a lazy tensor can have in its field `extra`, besides another lazy tensor or a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from plait.batching._lazy import Lazy


class Const:
    """A value that is the same tensor in every lane; `source` names it where writing to it is forbidden."""

    __slots__ = ("row", "source", "tensor")

    def __init__(self, tensor: Tensor, source: str | None) -> None:
        self.row: Lazy | None = None  # the same as a row, once one was needed
        self.tensor = tensor
        self.source = source


class Written:
    """Mark of a value that was written in place: tensor views of it look again before they are used."""

    __slots__ = ("slot", "version")

    def __init__(self, slot: int, version: int) -> None:
        self.slot = slot
        self.version = version


class Alias:
    """A tensor view: the value it looks into, and how."""

    __slots__ = ("chain", "grad", "root", "seen")

    def __init__(self, root: Lazy, chain: tuple[Any, ...], seen: int, grad: bool = True) -> None:
        self.grad = grad  # taken while gradients were on
        self.root = root
        self.chain = chain
        self.seen = seen


class Input:
    """Mark of an example's own tensor, which belongs to the caller."""


INPUT = Input()
