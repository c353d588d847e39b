"""The fused cells of PyTorch, written out in ops that have direct batched forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from plait.batching._lazy import Lazy
from plait.batching.kernels._table import rule

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def flat(t: Tracer, x: Any) -> Any:
    """`[1, H]` as `[H]`: the modules add a dimension to a single example, which would only be in the way here."""
    shape = tuple(x.meta.shape) if type(x) is Lazy else ()
    return t.reshape(x, shape[1:]) if len(shape) == 2 and shape[0] == 1 and not t.is_ragged(x) else x


def single(t: Tracer, *xs: Any) -> tuple[tuple[Any, ...], Any]:
    """The inputs and states without that dimension, and what puts it back on a result; as they are if one has more."""
    less = tuple(flat(t, x) for x in xs)
    if not all(type(x) is Lazy and len(x.meta.shape) == 1 for x in less):
        return xs, lambda y: y
    return less, lambda y: t.reshape(y, (1, *y.meta.shape))


def gates(x: Any, h: Any, args: Args) -> Any:
    w_ih, w_hh, *b = args
    if b and b[0] is not None:
        return F.linear(x, w_ih, b[0]) + F.linear(h, w_hh, b[1])
    return F.linear(x, w_ih) + F.linear(h, w_hh)


@rule("rnn_tanh_cell")
def rnn_tanh(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    (x, h), whole = single(t, *args[:2])
    return whole(torch.tanh(gates(x, h, args[2:])))


@rule("rnn_relu_cell")
def rnn_relu(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    (x, h), whole = single(t, *args[:2])
    return whole(torch.relu(gates(x, h, args[2:])))


@rule("lstm_cell")
def lstm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    (x, h, c), whole = single(t, args[0], *args[1])
    i, f, g, o = gates(x, h, args[2:]).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return whole(torch.sigmoid(o) * torch.tanh(c)), whole(c)


@rule("gru_cell")
def gru(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    (x, h), whole = single(t, *args[:2])
    w_ih, w_hh, *b = args[2:]
    b = b or [None, None]
    gi, gh = F.linear(x, w_ih, b[0]), F.linear(h, w_hh, b[1])
    k = h.shape[-1]
    rz = torch.sigmoid(gi.narrow(-1, 0, 2 * k) + gh.narrow(-1, 0, 2 * k))
    r, z = rz.chunk(2, -1)
    n = torch.tanh(gi.narrow(-1, 2 * k, k) + r * gh.narrow(-1, 2 * k, k))
    return whole(n + z * (h - n))
