"""What is known of a value before it is computed: shape, dtype, device, and which rows of which space hold it."""

from __future__ import annotations

from math import prod
from typing import Final

import torch

from plait.batching._core_choice import MetaBase


class Space:
    """All rows of one inner shape, dtype and device; at run time one growing tensor holds them.

    A value of shape `[T, F]` is T rows of the space `[F]`; a vector `[F]` is one row of it. So `x[t]`, slices and
    ragged lengths cost no copy and need no padding.
    """

    __slots__ = ("device", "dtype", "floating", "inner", "key")

    def __init__(self, inner: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self.inner: Final = inner
        self.dtype: Final = dtype
        self.device: Final = device
        self.floating: Final = dtype.is_floating_point or dtype.is_complex
        self.key: Final = (inner, dtype, device)

    def __repr__(self) -> str:
        return f"Space({list(self.inner)}, {self.dtype}, {self.device})"


class Meta(MetaBase):
    """Interned: two metas with the same content are the same object, so keys compare by identity.

    `lead` is 1 where the first dimension counts rows of the space and 0 where the whole value is one row.
    """

    __slots__ = ("_detached", "device", "dtype", "numel", "shape", "space")

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, tracks: bool, lead: int
    ) -> None:
        self.shape: Final = torch.Size(shape)
        self.dtype: Final = dtype
        self.device: Final = device
        self.tracks = tracks  # requires_grad
        self.numel: Final = prod(shape)
        self._detached: Meta | None = None
        self.lead = lead
        self.space: Final = space_of(tuple(shape[lead:]), dtype, device)
        self.rows = shape[0] if lead else 1
        self.row = meta_of(shape[1:], dtype, device, tracks, 0) if lead else None
        self.number = _NUMBERS.get(dtype, 0) if self.rows == 1 and self.numel == 1 else 0
        self.truth = meta_of(shape, torch.bool, device, False, lead) if self.number else None

    def __repr__(self) -> str:
        return f"Meta({list(self.shape)}, {self.dtype}, tracks={self.tracks}, lead={self.lead})"

    def detached(self) -> Meta:
        """The same without a gradient."""
        if not self.tracks:
            return self
        if self._detached is None:
            self._detached = meta_of(tuple(self.shape), self.dtype, self.device, False, self.lead)
        return self._detached


_NUMBERS = {torch.float32: 1, torch.float64: 2, torch.int64: 3, torch.int32: 3}
_SPACES: dict[tuple[object, ...], Space] = {}
_METAS: dict[tuple[object, ...], Meta] = {}


def space_of(inner: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Space:
    key = (inner, dtype, device)
    found = _SPACES.get(key)
    return found if found is not None else _SPACES.setdefault(key, Space(inner, dtype, device))


def default_lead(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Matrices are rows; a vector of integers (token ids) is rows of scalars; a vector of floats is one row."""
    return int(len(shape) >= 2 or (len(shape) == 1 and not dtype.is_floating_point and not dtype.is_complex))


def meta_of(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, tracks: bool, lead: int | None = None
) -> Meta:
    shape = tuple(shape)
    if lead is None:
        lead = default_lead(shape, dtype)
    key = (shape, dtype, device, tracks, lead)
    found = _METAS.get(key)
    if found is None:
        if len(_METAS) > 100_000:  # only ever a cache; identity matters within one run
            _METAS.clear()
        found = _METAS[key] = Meta(shape, dtype, device, tracks, lead)
    return found


def row_meta(meta: Meta) -> Meta:
    """Meta of `x[i]` for a value that is rows."""
    assert meta.row is not None
    return meta.row  # type: ignore[no-any-return]
