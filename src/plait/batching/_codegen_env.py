"""What the source of a compiled program can name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plait._torch import kernel
from plait.batching._program import Rows

aten = torch.ops.aten


def _cross_entropy(a: Tensor, y: Tensor, skip: int) -> tuple[Tensor, Tensor]:
    p = torch.log_softmax(a, -1)
    return aten.nll_loss_nd(p, y, None, 0, skip), p


def _cross_entropy_back(g: Tensor, p: Tensor, y: Tensor, skip: int) -> Tensor:
    d = p.exp()
    safe = y.clamp(min=0).unsqueeze(-1) if skip < 0 else y.unsqueeze(-1)
    d.scatter_add_(-1, safe, torch.full_like(safe, -1, dtype=d.dtype))
    g = torch.where(y == skip, 0.0, g) if skip != -100 or bool((y == skip).any()) else g
    return d.mul_(g.unsqueeze(-1))


def _cut(shape: torch.Size, g: Tensor, d: int, start: int, length: int) -> Tensor:
    z = g.new_zeros(shape)
    z.narrow(d, start, length).copy_(g)
    return z


def _put(shape: torch.Size, g: Tensor, d: int, i: int) -> Tensor:
    z = g.new_zeros(shape)
    z.select(d, i).copy_(g)
    return z


def _segment_spread(ctx: Rows, g: Tensor, mean: bool) -> Tensor:
    k = ctx.equal
    if k == 1:
        return g
    if mean:
        g = g / ctx.sizes.to(g.dtype).view(-1, *(1,) * (g.dim() - 1))
    if k > 0:
        return g.unsqueeze(1).expand(g.shape[0], k, *g.shape[1:]).reshape(-1, *g.shape[1:])
    return g.index_select(0, ctx.owner)


def _segment_total(ctx: Rows, g: Tensor) -> Tensor:
    from plait.batching.kernels.reductions import segment_sum

    return segment_sum(ctx, g)


ENV: dict[str, Any] = {
    "torch": torch,
    "addmm": torch.addmm,
    "addcmul": torch.addcmul,
    "mm": torch.mm,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "matmul": torch.matmul,
    "linear": torch.nn.functional.linear,
    "empty_like": torch.empty_like,
    # Overloads by name: to find one by the arguments costs more than these functions do.
    "sigmoid_backward": kernel(aten.sigmoid_backward.default),
    "tanh_backward": kernel(aten.tanh_backward.default),
    "threshold_backward": kernel(aten.threshold_backward.default),
    "sigmoid_back": kernel(aten.sigmoid_backward.grad_input),
    "tanh_back": kernel(aten.tanh_backward.grad_input),
    "relu_back": kernel(aten.threshold_backward.grad_input),
    "cross_entropy": _cross_entropy,
    "cross_entropy_back": _cross_entropy_back,
    "cut": _cut,
    "put": _put,
    "segment_spread": _segment_spread,
    "segment_total": _segment_total,
    "softmax_back": kernel(aten._softmax_backward_data.default),
    "log_softmax_back": kernel(aten._log_softmax_backward_data.default),
    "cat": torch.cat,
    "where": torch.where,
    "embedding_back": kernel(aten.embedding_dense_backward.default),
}
