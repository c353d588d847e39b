"""The fused cells of PyTorch, written out in ops that have direct batched forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from plait.batching.kernels._table import rule

if TYPE_CHECKING:
    from plait.batching._trace import Tracer

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def gates(x: Any, h: Any, args: Args) -> Any:
    w_ih, w_hh, *b = args
    if b and b[0] is not None:
        return F.linear(x, w_ih, b[0]) + F.linear(h, w_hh, b[1])
    return F.linear(x, w_ih) + F.linear(h, w_hh)


@rule("rnn_tanh_cell")
def rnn_tanh(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    return torch.tanh(gates(args[0], args[1], args[2:]))


@rule("rnn_relu_cell")
def rnn_relu(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    return torch.relu(gates(args[0], args[1], args[2:]))


@rule("lstm_cell")
def lstm(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    h, c = args[1]
    i, f, g, o = gates(args[0], h, args[2:]).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@rule("gru_cell")
def gru(t: Tracer, name: str, args: Args, kwargs: Kwargs) -> Any:
    x, h, w_ih, w_hh, *b = args
    b = b or [None, None]
    gi, gh = F.linear(x, w_ih, b[0]), F.linear(h, w_hh, b[1])
    k = h.shape[-1]
    rz = torch.sigmoid(gi.narrow(-1, 0, 2 * k) + gh.narrow(-1, 0, 2 * k))
    r, z = rz.chunk(2, -1)
    n = torch.tanh(gi.narrow(-1, 2 * k, k) + r * gh.narrow(-1, 2 * k, k))
    return n + z * (h - n)
