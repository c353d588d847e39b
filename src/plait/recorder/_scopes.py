"""Scopes: the module in whose `forward` the program is, and the names of parameters and buffers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

# Modules whose inside is compiled: torch.compile's wrapper and the TorchScript kinds.
OPAQUE_MODULES = {"OptimizedModule", "ScriptModule", "RecursiveScriptModule", "TopLevelTracedModule", "TracedModule"}


class Scopes:
    """Numbers for module paths. The stack holds the scope of each module call that is under way."""

    def __init__(self, on_names: Callable[[], None]) -> None:
        self.bodies: list[tuple[str, str]] = []
        self.stack: list[int | None] = [None]
        # Beside it, for each module call: (site, activation, frame) of the program's code that led to it, once known.
        # The frame is waiting for the call to return, so holding it keeps nothing alive.
        self.call_sites: list[tuple[int, Any, Any] | None] = [None]
        self.tensor_names: dict[int, tuple[weakref.ref[torch.Tensor], str, bool]] = {}
        self._on_names = on_names  # called when tensors have got names
        self.modules: list[nn.Module] = []  # the module calls that are under way
        self.on_model: Callable[[nn.Module, list[nn.Module]], None] = lambda *_: None
        self.known: dict[int, tuple[weakref.ref[nn.Module], int, bool]] = {}  # ..., its scope, whether it is opaque
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, module: nn.Module) -> int:
        """The scope of a module; an unknown one is the root of a model, whose parts are named after it."""
        known = self.known.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        self.learn(module)
        return self.known[id(module)][1]

    def learn(self, root: nn.Module) -> None:
        """Name a model and everything in it."""
        prefix = "" if len(self.stack) == 1 else f"{type(root).__name__}."
        for name, module in root.named_modules():
            known = self.known.get(id(module))
            if module is not root and known is not None and known[0]() is module:
                continue
            path = name if name else prefix.rstrip(".")
            if name and prefix:
                path = prefix + name
            self.known[id(module)] = (
                weakref.ref(module),
                self._number(path, type(module).__name__),
                type(module).__name__ in OPAQUE_MODULES,
            )
            for part, tensor in module._parameters.items():
                self._name(tensor, f"{path}.{part}" if path else part, False)
            for part, tensor in module._buffers.items():
                self._name(tensor, f"{path}.{part}" if path else part, True)
        self._on_names()
        self.on_model(root, self.modules)

    def name_of(self, tensor: Any) -> tuple[str, bool] | None:
        """(name, whether it is a buffer) of a tensor that a known module owns."""
        known = self.tensor_names.get(id(tensor))
        return known[1:] if known is not None and known[0]() is tensor else None

    def _name(self, tensor: torch.Tensor | None, name: str, buffer: bool) -> None:
        if tensor is not None and self.name_of(tensor) is None:
            self.tensor_names[id(tensor)] = (weakref.ref(tensor), name, buffer)

    def _number(self, path: str, module: str) -> int:
        number = self._numbers.get((path, module))
        if number is None:
            number = self._numbers[path, module] = len(self.bodies)
            self.bodies.append((path, module))
        return number
