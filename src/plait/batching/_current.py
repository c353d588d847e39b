"""Which runtime the calls of this thread go to."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from plait.batching._core_choice import use

if TYPE_CHECKING:
    from plait.batching._lazy import Lazy


PER_BATCH = 1 << 32  # numbers for examples: no two of any batches have the same
SIZE_DEPENDS = "the size of its result depends on the numbers"


class Runtime(ABC):
    """What lazy tensors talk to: lanes of a batch, or a trace."""

    tracing: ClassVar[bool] = False
    lane: int
    core: Any = None
    log: list[list[Any]] | None = None  # what each lane read, where somebody wants to know

    def __init__(self) -> None:
        self.lane = -1

    @property
    def example(self) -> int:
        """The number of the example whose code runs; -1 if it is none's."""
        return -1

    @abstractmethod
    def emit(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds the pure call `name(*args, **kwargs)`."""

    @abstractmethod
    def read(self, x: Lazy) -> Any:
        """The value as nested Python lists (a number for a scalar); waits for it."""

    @abstractmethod
    def alone(self, name: str, func: Any, args: Any, kwargs: Any, why: str = SIZE_DEPENDS) -> Any:
        """A call whose result is not known before it ran."""

    @abstractmethod
    def reals(self, a: Any) -> Any:
        """The arguments with real tensors in place of lazy ones; waits for them."""

    @abstractmethod
    def random(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A call that draws random numbers."""

    @abstractmethod
    def shared_call(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A call that no example changes."""

    @abstractmethod
    def name_of(self, x: Any) -> str:
        """How to call a shared tensor in a message."""

    @abstractmethod
    def foreign(self, x: Lazy) -> NoReturn:
        """Says that a value is another example's, or another batch's, and what to write instead."""

    @abstractmethod
    def own(self, x: Lazy) -> None:
        """Makes a constant writable for this lane."""

    def unpaused(self, what: str) -> AbstractContextManager[None]:
        """The example must not wait in here: another one cannot run before `what` has ended."""
        return nullcontext()

    def rows_view(self, name: str, x: Lazy, args: Any, kwargs: Any) -> Any:
        """A tensor view that only names other rows, or None."""
        return None


class _Local(threading.local):
    _rt: Runtime | None = None

    @property
    def rt(self) -> Runtime | None:
        """The runtime that is current in this thread."""
        return self._rt

    @rt.setter
    def rt(self, rt: Runtime | None) -> None:
        self._rt = rt
        use(None if rt is None else rt.core)


local = _Local()
