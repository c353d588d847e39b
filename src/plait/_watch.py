"""Where batched runs are announced: `batch` tells, a recorder listens, and neither needs the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Asked = tuple[CodeType | None, int]
"""Where a value was asked for: a code object and the offset of its instruction."""


class BatchWatch(Protocol):
    """What one batched run tells, in the order in which it happens."""

    def lanes(self) -> AbstractContextManager[None]:
        """The examples run inside of this."""

    def node(self) -> None:
        """The code that is running now has made a call that waits; calls are numbered from 0 as they come."""

    def flush(self, waiting: int, asked: Asked | None) -> None:
        """What waits runs now: that many examples wait for a value, most of them for one asked for there; None at the
        end, when every example has returned."""

    def group(self, name: str, width: int, lanes: bytes, nodes: bytes, ns: int) -> None:
        """So many calls ran as one; 32-bit numbers of their examples and of the calls."""

    def uses(self, modules: list[Module]) -> None:
        """The models whose parameters get gradients through this run; told before its result is made."""

    def seen(self, tensors: list[Tensor]) -> list[Tensor]:
        """Those of the examples' tensors that the step has seen already, and that ask for no gradient."""

    def ends(self, report: Any) -> None:
        """The run is over; its report."""


batch_listeners: list[Callable[[int], BatchWatch | None]] = []
"""Asked, with the number of examples, when a batched run begins; the last that wants to watch does."""


def watch_of(examples: int) -> BatchWatch | None:
    """The watch of a batched run that begins, or None when nobody listens."""
    for each in reversed(batch_listeners):
        watch = each(examples)
        if watch is not None:
            return watch
    return None
