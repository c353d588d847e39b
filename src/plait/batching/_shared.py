"""Arguments with and without a value of an example; calls that no example changes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from plait.batching._current import Runtime
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._names import function_of
from plait.batching._site import refuse

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def has_lazy(a: Any) -> bool:
    """True if a value that depends on the example is among the arguments (at any depth of lists and tuples)."""
    t = type(a)
    if t is Lazy:
        return type(a.extra) is not Const
    if t is tuple or t is list:
        return any(has_lazy(x) for x in a)
    if t is slice:
        return has_lazy(a.start) or has_lazy(a.stop) or has_lazy(a.step)
    if t is dict:
        return any(has_lazy(x) for x in a.values())
    return isinstance(a, Lazy) if isinstance(a, Tensor) else False


def unwrap(a: Any) -> Any:
    """The same arguments with constants as the tensors they are."""
    t = type(a)
    if t is Lazy and type(a.extra) is Const:
        return a.extra.tensor
    if t is tuple or t is list:
        return t(unwrap(x) for x in a)
    if t is dict:
        return {k: unwrap(x) for k, x in a.items()}
    return a


def plain(rt: Runtime, name: str, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call without any value of an example: computed once, the same for all lanes."""
    f = func if func is not None else function_of(name)
    if name in ("requires_grad_", "backward", "grad", "set_", "resize_"):
        refuse(f"`{name}` on a tensor that all examples share", "do it outside of the function for one example")
    return rt.shared_call(name, f, unwrap(args), unwrap(kwargs))


def shared_source(t: Tensor) -> str:
    return f"a tensor of shape {list(t.shape)} that all examples share"


def tensors_of(a: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(a, (tuple, list)):
        return [t for x in a for t in tensors_of(x)]
    if isinstance(a, dict):
        return [t for x in a.values() for t in tensors_of(x)]
    return [a] if isinstance(a, Tensor) else []


def unchanged(name: Any, given: list[Tensor], versions: list[int] | None = None) -> None:
    """Refuses a function that has written to what it was given: only the copies that it got would know."""
    if any(now > before for now, before in zip(versions_of(given), versions or [0] * len(given))):
        word = name if type(name) is str else getattr(name, "__name__", "a function")
        refuse(f"`{word}` writes to its arguments inside plait.batch", "use a form of it that returns the new value")


def versions_of(tensors: list[Tensor]) -> list[int]:
    """How often each was written to, where PyTorch counts it."""
    return [0 if t.is_inference() else t._version for t in tensors]
