"""Everything that running a model can change, kept and put back: parameters, buffers, gradients, modes, randomness."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


def modules_of(model: Callable[..., Any]) -> list[nn.Module]:
    """The modules that a callable runs, as far as they can be found: itself, its closure, its globals, its owner."""
    found: dict[int, nn.Module] = {}
    stack: list[Any] = [model]
    seen: set[int] = set()
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, nn.Module):
            found[id(each)] = each
        elif isinstance(each, functools.partial):
            stack += [each.func, *each.args, *each.keywords.values()]
        elif isinstance(each, (list, tuple)):
            stack += each[:100]
        elif isinstance(each, dict):
            stack += list(each.values())[:100]
        elif hasattr(each, "__code__"):
            stack += [cell.cell_contents for cell in each.__closure__ or () if _filled(cell)]
            names = [each.__globals__.get(name) for name in each.__code__.co_names]
            stack += [item for item in names if isinstance(item, nn.Module) or _is_function(item)]
            stack.append(getattr(each, "__self__", None))
        elif hasattr(each, "__dict__") and not isinstance(each, (type, torch.Tensor)) and each is model:
            stack += list(vars(each).values())
    return list(found.values())


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_function(item: Any) -> bool:
    return hasattr(item, "__code__") and not getattr(item, "__module__", "").startswith(("torch", "plait"))


class State:
    """What there was before; `restore` brings it back as often as one likes."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self._modules = modules
        self._tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._gradients: list[tuple[nn.Parameter, torch.Tensor | None, torch.Tensor | None]] = []
        self._training: list[tuple[nn.Module, bool]] = []
        self._attributes: list[tuple[nn.Module, dict[str, Any]]] = []
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                self._tensors.append((tensor, tensor.detach().clone()))
            for parameter in module.parameters():
                gradient = parameter.grad
                self._gradients.append((parameter, gradient, None if gradient is None else gradient.detach().clone()))
            for each in module.modules():
                self._training.append((each, each.training))
                self._attributes.append((each, dict(vars(each))))
                self._attributes[-1][1]["_buffers"] = dict(each._buffers)
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else numpy.random.get_state()

    def restore(self) -> None:
        """Put everything back."""
        with torch.no_grad():
            for tensor, before in self._tensors:
                if not torch.equal(tensor, before):
                    tensor.copy_(before)
            for parameter, gradient, numbers in self._gradients:
                if gradient is not None and numbers is not None:
                    gradient.copy_(numbers)
                parameter.grad = gradient
        for module, attributes in self._attributes:
            own = vars(module)
            for name in [name for name in own if name not in attributes]:
                del own[name]
            own.update(attributes)
            own["_buffers"] = dict(attributes["_buffers"])
        for module, training in self._training:
            module.training = training
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


@contextmanager
def unchanged(modules: list[nn.Module]) -> Iterator[State]:
    """Whatever happens inside, everything is as before afterwards."""
    state = State(modules)
    try:
        yield state
    finally:
        state.restore()


def without_dropout(modules: list[nn.Module]) -> None:
    """Switch dropout off, and only that: a layer in training mode stays in training mode."""
    for module in modules:
        for each in module.modules():
            if isinstance(each, nn.modules.dropout._DropoutNd):
                each.training = False
            elif isinstance(getattr(each, "dropout", None), float):
                each.dropout = 0.0  # type: ignore[assignment]
