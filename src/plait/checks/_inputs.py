"""The inputs of a model as rows: one row alone, rows in another order, more padding, other padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree

from plait._errors import PlaitError

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call: flat, which of them have rows, how many rows, and the real length of each."""

    leaves: list[Any]
    spec: Any
    dim: int
    rows: int
    lengths: list[int] | None

    def arguments(self) -> tuple[Any, ...]:
        """The arguments as the model takes them."""
        found: Any = _pytree.tree_unflatten(self.leaves, self.spec)
        return tuple(found)

    def has_rows(self, leaf: Any) -> bool:
        """Whether this one has a row for each example."""
        return isinstance(leaf, torch.Tensor) and leaf.dim() > self.dim and leaf.shape[self.dim] == self.rows

    def pick(self, rows: Sequence[int]) -> Inputs:
        """Only these rows, in this order."""
        index = torch.tensor(list(rows))
        leaves = [
            leaf.index_select(self.dim, index.to(leaf.device)) if self.has_rows(leaf) else leaf for leaf in self.leaves
        ]
        lengths = None if self.lengths is None else [self.lengths[row] for row in rows]
        return Inputs(leaves, self.spec, self.dim, len(rows), lengths)

    @property
    def width(self) -> int:
        """The number of positions of a row, padding and all."""
        widths = [leaf.shape[self.time] for leaf in self.leaves if self.has_rows(leaf) and leaf.dim() > self.time]
        return max(widths, default=0)

    @property
    def time(self) -> int:
        """The dimension of the positions: the one next to the rows."""
        return 1 if self.dim == 0 else 0

    def in_time(self, leaf: Any) -> bool:
        """Whether this one has rows and positions."""
        return self.has_rows(leaf) and leaf.dim() > max(self.time, self.dim) and leaf.shape[self.time] == self.width

    def longer(self, more: int, like: Inputs) -> Inputs:
        """`more` positions of padding at the end; they look like the last position of the most padded row of `like`."""
        assert like.lengths is not None
        padded = min(range(like.rows), key=lambda row: like.lengths[row] if like.lengths else 0)
        width = self.width
        leaves = []
        for leaf, model in zip(self.leaves, like.leaves):
            if not self.in_time(leaf):
                leaves.append(leaf)
                continue
            column = model.select(like.dim, padded).select(0, width - 1)
            shape = list(leaf.shape)
            shape[self.time] = more
            extra = column.expand([self.rows, more, *column.shape]) if self.dim == 0 else column.expand(
                [more, self.rows, *column.shape]
            )  # fmt: skip
            leaves.append(torch.cat([leaf, extra.reshape(shape)], self.time))
        return Inputs(leaves, self.spec, self.dim, self.rows, self.lengths)

    def other_padding(self) -> Inputs:
        """Other numbers in the padding of everything that is no mask, no length and no list of tokens."""
        assert self.lengths is not None
        generator = torch.Generator().manual_seed(0)
        leaves = []
        for leaf in self.leaves:
            if not self.in_time(leaf) or not leaf.is_floating_point() or leaf.dim() < 3:
                leaves.append(leaf)
                continue
            changed = leaf.clone()
            for row, length in enumerate(self.lengths):
                part = changed.select(self.dim, row)
                noise = torch.randn(part[length:].shape, generator=generator) * 3 + 1
                part[length:] = noise.to(part)
            leaves.append(changed)
        return Inputs(leaves, self.spec, self.dim, self.rows, self.lengths)

    def double(self) -> Inputs:
        """Floating tensors in double precision."""
        leaves = [
            leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
            for leaf in self.leaves
        ]
        return Inputs(leaves, self.spec, self.dim, self.rows, self.lengths)


def inputs_of(batch: Any, lengths: Any, dim: int) -> Inputs:
    """A batch, ready to be taken apart.

    Raises:
        PlaitError: it holds no tensor, one row only, or as many lengths as rows were not given.
    """
    arguments = batch if isinstance(batch, tuple) else (batch,)
    leaves, spec = _pytree.tree_flatten(arguments)
    first = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > dim), None)
    if first is None:
        raise PlaitError(f"check: the batch holds no tensor with a dimension {dim} to find the rows in")
    rows = first.shape[dim]
    if rows < 2:
        raise PlaitError("check: give a batch of at least two rows, so that one can be compared with its company")
    numbers = None if lengths is None else [int(each) for each in lengths]
    if numbers is not None and len(numbers) != rows:
        raise PlaitError(f"check: {len(numbers)} lengths were given for a batch of {rows} rows")
    return Inputs(
        [each.detach() if isinstance(each, torch.Tensor) else each for each in leaves], spec, dim, rows, numbers
    )


def stacked(examples: list[Any]) -> tuple[Any, list[int] | None]:
    """(batch, lengths) of a list of examples: stacked where they have one size, else padded with zeros at the end."""
    if not examples or not all(isinstance(each, torch.Tensor) for each in examples):
        raise PlaitError("check: a list must hold one tensor an example; give a batch (a tensor or a tuple) otherwise")
    if all(each.shape == examples[0].shape for each in examples):
        return torch.stack(examples), None
    return torch.nn.utils.rnn.pad_sequence(examples, batch_first=True), [len(each) for each in examples]
