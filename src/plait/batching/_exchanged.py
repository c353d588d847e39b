"""Weights that a module has for one call only: `torch.func.functional_call` inside of an example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn

from plait import _torch as private
from plait.batching._current import local

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

_exchange: Any = getattr(*private.EXCHANGE)


def exchange(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    """In place of PyTorch's own while lanes run: calls of a module are known by the module, so what is known of them
    does not hold with other weights."""
    rt: Any = local.rt
    inner: AbstractContextManager[None] = _exchange(*args, **kwargs)
    return inner if rt is None or rt.core is None else _of_lane(rt, inner)


@contextmanager
def _of_lane(rt: LaneRuntime, inner: AbstractContextManager[None]) -> Iterator[None]:
    rt.exchanged(1)
    try:
        with inner:
            yield
    finally:
        rt.exchanged(-1)


def weights_of(rt: LaneRuntime, module: Any) -> list[Any]:
    """What the weights of a call are known by: those that the module has now, and its children; of a function, which
    may reach any module, the number of exchanges so far."""
    if not isinstance(module, nn.Module):
        return [rt.exchanges]
    with private.DisableTorchFunction():
        weights = [*module.parameters(), *module.buffers()]
    rt.keep.append(weights)
    return [id(w) for w in weights]
