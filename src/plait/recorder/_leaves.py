"""Leaves and their gradients over the steps of a run: which tensor is which, who owns it, what its gradient holds.

Graphs say what a step built; they are equal for two models of one kind. What rules must know beyond that is kept here:
a number for every leaf that asks for gradients, the module or container and the optimizers that own it, and whether
an optimizer used a gradient that still held what an earlier step had used.

NOTE [Stale gradients]
    After an update we note each gradient (weakly) and its version. If it is the same tensor at the same version when
    the next backward pass begins, nobody reset it, and that pass adds to it. `w.grad.data.zero_()` resets without a
    new version, so a gradient that looks stale is checked for being zero, once a pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

import torch

from plait._torch import DisableTorchFunction

WATCHED_FOR_SUMS = 4  # leaves whose gradients tell whether a pass adds to what earlier ones left


class LeafFacts(NamedTuple):
    """A row of the table `leaf`: see there."""

    number: int
    name: str | None
    shape: str
    module: str | None
    holder: str | None
    optimizer: str | None
    site: int | None
    registered: int


class _Leaf:
    __slots__ = ("holder", "module", "name", "number", "optimizer", "registered", "shape", "site", "weak")

    def __init__(self, number: int, tensor: torch.Tensor, name: str | None, site: int | None) -> None:
        self.number = number
        self.weak = ref(tensor)
        self.shape = str(list(tensor.shape))
        self.name = name
        self.site = site
        self.module: str | None = None
        self.holder: str | None = None
        self.optimizer: str | None = None
        self.registered = 1  # 0: of a module that ran inside another one which does not know it


class _Used:
    """A gradient as it was after an update."""

    __slots__ = ("gradient", "leaf", "pending", "version")

    def __init__(self, leaf: Any, gradient: Any, version: int) -> None:
        self.leaf = leaf
        self.gradient = gradient
        self.version = version
        self.pending = False


class Leaves:
    """Numbers leaves and follows their gradients. Everything weak: watching keeps nothing alive."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Leaf] = {}
        self._all: list[_Leaf] = []
        self._owned: set[tuple[int, int]] = set()  # optimizers whose tensors are known
        self._changed: set[int] = set()
        self._used: dict[int, _Used] = {}
        self._sums: list[tuple[Any, Any, int]] = []
        self.passes = 0  # backward passes of the run so far
        self.of_step: list[Any] = []  # weak references to the leaves that the step under way uses
        self.storages: dict[int, Any] = {}  # the leaf that lives in a storage

    # -- which is which -------------------------------------------------------------------------------------------

    def number_of(self, tensor: torch.Tensor, name: str | None = None, site: int | None = None) -> int:
        """The number of a leaf."""
        leaf = self._by_id.get(id(tensor))
        if leaf is None or leaf.weak() is not tensor:
            leaf = self._by_id[id(tensor)] = _Leaf(len(self._all), tensor, name, site)
            self._all.append(leaf)
            self._changed.add(leaf.number)
        elif name is not None and leaf.name is None:
            leaf.name = name
            self._changed.add(leaf.number)
        return leaf.number

    def known(self, tensor: torch.Tensor) -> int | None:
        """The number of a leaf, if it has one."""
        leaf = self._by_id.get(id(tensor))
        return leaf.number if leaf is not None and leaf.weak() is tensor else None

    def model(self, root: torch.nn.Module, outer: list[torch.nn.Module], name_of: Any) -> None:
        """A module was called for the first time, and no model has named it yet; `outer` modules are under way."""
        unknown = bool(outer) and not any(part is root for each in outer for part in each.modules())
        holder = _holder(root, outer) if unknown else None
        # A part that the model got after it was named: its parameters are named by their path in the model.
        paths = {} if unknown or not outer else {id(p): name for name, p in outer[0].named_parameters()}
        for each in root.parameters():
            if each.requires_grad:
                named = name_of(each)
                name = paths.get(id(each)) or (None if named is None else named[0])
                leaf = self._all[self.number_of(each, name)]
                leaf.name = name if name is not None else leaf.name
                leaf.module, leaf.holder = type((outer or [root])[0]).__name__, holder
                leaf.registered = int(not unknown)
                self._changed.add(leaf.number)

    def owned(self, optimizer: torch.optim.Optimizer, groups: list[Any]) -> None:
        """An optimizer updates these tensors."""
        key = id(optimizer), sum(len(group["params"]) for group in groups)
        if key in self._owned:
            return
        self._owned.add(key)
        for group in groups:
            for each in group["params"]:
                if isinstance(each, torch.Tensor) and each.requires_grad:
                    leaf = self._all[self.number_of(each)]
                    if leaf.optimizer is None:
                        leaf.optimizer = type(optimizer).__name__
                        self._changed.add(leaf.number)

    def changes(self) -> list[LeafFacts]:
        """The facts that are new since the last call."""
        numbers, self._changed = sorted(self._changed), set()
        return [
            LeafFacts(
                each.number, each.name, each.shape, each.module, each.holder, each.optimizer, each.site, each.registered
            )
            for each in (self._all[number] for number in numbers)
        ]

    # -- gradients ------------------------------------------------------------------------------------------------

    def updated(self, parameters: list[torch.Tensor]) -> tuple[int, int]:
        """An update used the gradients of these: (how many held something an earlier update had used, without one)."""
        stale = missing = 0
        for each in parameters:
            gradient = each.grad
            if gradient is None:
                missing += 1
                continue
            used = self._used.get(id(each))
            if used is not None and used.pending and used.leaf() is each and used.gradient() is gradient:
                stale += 1
            self._used[id(each)] = _Used(ref(each), ref(gradient), gradient._version)
        self._sums.clear()
        return stale, missing

    def backward_begins(self) -> bool:
        """A pass is about to add gradients; whether it adds to what an earlier one of the same update left."""
        self.passes += 1
        gone = []
        for key, used in self._used.items():
            leaf = used.leaf()
            gradient = None if leaf is None else leaf.grad
            if gradient is None or gradient is not used.gradient() or gradient._version != used.version:
                gone.append(key)
            elif not used.pending:
                used.pending = _holds_something(gradient)
        for key in gone:
            del self._used[key]
        for weak, gradient, version in self._sums:
            leaf = weak()
            now = None if leaf is None else leaf.grad
            if now is not None and now is gradient() and now._version == version:
                return True
        return False

    def backward_ends(self) -> None:
        """The pass is over."""
        for used in self._used.values():
            gradient = used.gradient()
            if used.pending and gradient is not None:
                used.version = gradient._version
        self._sums.clear()
        for weak in self.of_step:
            leaf = weak()
            if leaf is not None and leaf.grad is not None:
                self._sums.append((weak, ref(leaf.grad), leaf.grad._version))
                if len(self._sums) == WATCHED_FOR_SUMS:
                    break


def _holds_something(gradient: torch.Tensor) -> bool:
    with DisableTorchFunction():
        if gradient.is_sparse or gradient.device.type == "meta":
            return False
        return bool(gradient.detach().count_nonzero().item())


def _holder(root: torch.nn.Module, outer: list[torch.nn.Module]) -> str | None:
    """The attribute of an outer module in whose list, tuple or dict the module lies: `Net.layers (list)`."""
    for module in reversed(outer):
        for name, content in vars(module).items():
            if name.startswith("_"):
                continue
            items = content.values() if isinstance(content, dict) else content
            if isinstance(content, (list, tuple, dict, set)) and any(
                each is root or (isinstance(each, torch.nn.Module) and any(part is root for part in each.modules()))
                for each in items
            ):
                return f"{type(module).__name__}.{name} ({type(content).__name__})"
    return None
