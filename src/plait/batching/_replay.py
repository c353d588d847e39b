"""A run once more through plain autograd: for gradients of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from plait import _torch as private
from plait.batching._arena import take
from plait.batching._meta import Space

if TYPE_CHECKING:
    from plait.batching._execute import Executor


def replay(ex: Executor, leaves: Mapping[int, Tensor], outputs: Sequence[Any]) -> list[Tensor]:
    """The outputs as differentiable functions of `leaves` (by id of the tensor that the run used)."""
    with private.DisableTorchFunction(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        rows: dict[Space, Tensor] = {
            s: a.buf[: a.filled].detach() if len(a.buf) >= a.filled else a.buf.new_empty((a.filled, *s.inner))
            for s, a in ex.arenas.items()  # what is not there any more is computed again
        }
        for leaf in ex.leaves:
            t = leaves.get(id(leaf.tensor))
            if t is not None and leaf.meta.rows:
                space = leaf.meta.space
                at = torch.arange(leaf.row, leaf.row + leaf.meta.rows, device=space.device)
                rows[space] = rows[space].index_copy(0, at, t.reshape(leaf.meta.rows, *space.inner))
        for step in ex.tape:
            _step(step, rows, leaves)
        return [_rows(rows[o.space].index_select(0, o.index), o).view(o.shape) for o in outputs]


def _rows(x: Tensor, o: Any) -> Tensor:
    if o.live is None:
        return x
    return torch.where(o.live.view(-1, *(1,) * (x.dim() - 1)), x, x.detach())


def _step(step: Any, rows: dict[Space, Tensor], leaves: Mapping[int, Tensor]) -> None:
    args = [take(rows[c[0].space], c) for c in step.columns]
    sig = step.sig
    if sig.kind == "gather":
        outs = [args[0]]
    elif sig.kind == "alone":
        outs = step.saved[3](args, [leaves.get(id(w), w) for w in sig.shared])
    else:
        batch = [(step.rows.total if ragged else step.rows.n, *inner) for inner, ragged, _, _ in sig.in_metas]
        xs = [
            a.reshape(shape) if sig.program.vals[v].tracks else a.detach().reshape(shape)
            for a, shape, v in zip(args, batch, sig.program.ins)
        ]
        shared = [leaves.get(id(w), w) for w in sig.shared]
        outs = sig.replay(step.rows, xs, shared)
    for (arena, at, k), o in zip(step.outs, outs):
        if k:
            space = arena.space
            index = torch.arange(at, at + k, device=space.device)
            rows[space] = rows[space].index_copy(0, index, o.reshape(k, *space.inner))
