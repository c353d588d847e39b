"""Which runtime the calls of this thread go to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from plait.batching._lazy import Lazy


class Runtime:
    """What lazy tensors talk to: lanes of a batch, or a trace."""

    tracing: ClassVar[bool] = False
    lane: int
    core: Any = None
    log: list[list[Any]] | None = None  # what each lane read, where somebody wants to know

    def __init__(self) -> None:
        self.lane = -1

    def emit(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the pure call `name(*args, **kwargs)`."""
        raise NotImplementedError

    def read(self, x: Lazy) -> Any:
        """The value as nested Python lists (a number for a scalar); waits for it."""
        raise NotImplementedError


class _Local(threading.local):
    rt: Runtime | None = None


local = _Local()
