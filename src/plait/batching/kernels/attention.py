"""Self-attention over ragged rows: padded in buckets of similar length; nothing of the padding is ever visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plait.batching._lazy import Lazy
from plait.batching._program import NoRule, Rows
from plait.batching.kernels._table import rule

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
CALL_COST = 60_000  # of one more attention call, in multiply-adds: what padding is weighed against


def buckets(lengths: list[int], width: int) -> list[list[int]]:
    """Examples that attend together: similar lengths, so that padding costs less than another call would."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    res: list[list[int]] = []
    waste = 0
    for i in order:
        n = lengths[i]
        if res and (last := res[-1]):
            top = lengths[last[-1]]
            extra = (n * n - top * top) * len(last) * width  # everyone in the bucket would be padded to n
            if waste + extra <= CALL_COST * 4:
                last.append(i)
                waste += extra
                continue
        res.append([i])
        waste = 0
    return res


def _heads(x: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    b, t, _ = x.shape
    q, k, v = x.view(b, t, 3, heads, -1).permute(2, 0, 3, 1, 4)
    return q, k, v


def dense(x: Tensor, heads: int, causal: bool, mask: Tensor | None) -> Tensor:
    q, k, v = _heads(x, heads)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None)
    return y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


def ragged(rows: Rows, x: Tensor, heads: int, causal: bool) -> Tensor:
    """`x`: rows of query, key and value side by side."""
    k = rows.equal
    if k > 0:
        return dense(x.reshape(rows.n, k, -1), heads, causal, None).reshape(rows.total, -1)
    lengths = rows.lengths or []
    starts = [0]
    for n in lengths:
        starts.append(starts[-1] + n)
    outs: list[Tensor] = []
    where: list[int] = []
    for bucket in buckets(lengths, x.shape[1]):
        ns = [lengths[i] for i in bucket]
        top = ns[-1]
        if not top:
            continue
        rows_in = [r for i in bucket for r in range(starts[i], starts[i] + lengths[i])]
        where += rows_in
        index = torch.tensor(rows_in, device=x.device)
        part = x.index_select(0, index)
        if ns[0] == top:
            outs.append(dense(part.view(len(ns), top, -1), heads, causal, None).reshape(len(rows_in), -1))
            continue
        at = torch.tensor([b * top + t for b, n in enumerate(ns) for t in range(n)], device=x.device)
        padded = x.new_zeros(len(ns) * top, x.shape[1]).index_copy(0, at, part).view(len(ns), top, -1)
        live = (torch.arange(top, device=x.device) < torch.tensor(ns, device=x.device)[:, None])[:, None, None, :]
        if causal:
            live = live & torch.ones(top, top, dtype=torch.bool, device=x.device).tril()
        outs.append(dense(padded, heads, False, live).reshape(len(ns) * top, -1).index_select(0, at))
    y = torch.cat(outs)
    inverse = torch.empty(len(where), dtype=torch.int64, device=x.device)
    inverse[torch.tensor(where, device=x.device)] = torch.arange(len(where), device=x.device)
    return y.index_select(0, inverse)


@rule("self_attention")
def self_attention(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    """`[T, 3E]` (query, key, value) to `[T, E]`, over an example's own rows."""
    x, heads, causal = args
    if not isinstance(x, Lazy) or len(x.meta.shape) != 2:
        raise NoRule
    shape = (x.meta.shape[0], x.meta.shape[1] // 3)
    out: list[tuple[tuple[int, ...], torch.dtype]] = [(shape, x.meta.dtype)]
    if t.is_ragged(x):
        return t.op(
            name,
            lambda r, a: ragged(r, a, heads, causal),
            [x],
            out,
            (heads, causal),
            ragged=True,
            rows=True,
        )[0]
    return t.op(name, lambda a: dense(a, heads, causal, None), [x], out, (heads, causal))[0]
