"""Modules over sequences whose whole call is one ragged node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait import _torch as private
from plait.batching._lazy import Lazy, _call
from plait.batching._marks import Const
from plait.batching._program import NoRule
from plait.batching._trace import Abort, Tracer
from plait.batching.kernels import rnn
from plait.batching.kernels._rnn_plain import plain_rnn

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


# ---------------------------------------------------------------------- recurrent networks
def call_rnn(rt: LaneRuntime, m: nn.RNNBase, args: Args, kwargs: Kwargs) -> Any:
    from plait.batching._build import entry_of, other_length
    from plait.batching._call import traced_of

    if not kwargs:
        seen = rt.core.call((m, "rnn"), m.training, args)
        if seen is not NotImplemented:
            return seen
    x = args[0] if args else kwargs.get("input")
    hx = args[1] if len(args) > 1 else kwargs.get("hx")
    cfg = rnn.config(m)
    if cfg is None or not isinstance(x, Tensor) or x.dim() not in (2, 3) or x.shape[-1] != m.input_size:
        return NotImplemented
    where = None
    if x.dim() == 3:
        where = 0 if m.batch_first else 1
        if x.shape[where] != 1:
            return NotImplemented
        x = x.squeeze(where)
    if x.shape[0] == 0 or torch.is_autocast_enabled("cpu"):
        return NotImplemented
    states: list[Any] = [] if hx is None else list(hx) if cfg.mode == "LSTM" else [hx]
    if where is not None:
        states = [s.squeeze(1) for s in states]
    with private.DisableTorchFunction():
        ws = rnn.weights(m)
        plain = all(type(w) is not Lazy and w.dtype == x.dtype for w in ws)  # type: ignore[comparison-overlap]
    if not plain:
        return NotImplemented
    expected = (cfg.layers * cfg.directions, cfg.hidden)
    if any(not isinstance(s, Tensor) or tuple(s.shape) != expected or s.dtype != x.dtype for s in states):
        return NotImplemented
    ins: list[Lazy] = []
    key: list[Any] = [m, "rnn", m.training, torch.is_grad_enabled(), rt.changes]
    rt._scan(x, key, ins, False)
    for s in states:
        rt._scan(
            rt.promote(s.extra.tensor if type(s) is Lazy else s)
            if type(s) is not Lazy or type(s.extra) is Const
            else s,
            key,
            ins,
            False,
        )
    if len(ins) != 1 + len(states) or ins[0].meta.lead != 1:
        return NotImplemented
    key.append(tuple([id(w) for w in ws]))
    frozen = tuple(key)
    entry = rt.entries.get(frozen)
    length = ins[0].meta.rows
    family = ("ragged", ins[0].meta.space, ins[0].meta.tracks, *(k for k in key if k is not ins[0].meta))
    if entry is None and family in rt.families:
        entry = rt.entries[frozen] = other_length(rt.families[family], length)
    if entry is None:
        t = Tracer(rt.device)
        syms = [t.symbol(ins[0].meta, True)] + [t.symbol(s.meta, False) for s in ins[1:]]
        outs: list[tuple[tuple[int, ...], torch.dtype]] = [
            ((length, cfg.directions * cfg.hidden), x.dtype),
            (expected, x.dtype),
        ]
        if cfg.mode == "LSTM":
            outs.append((expected, x.dtype))
        res = t.op(
            "rnn",
            plain_rnn(cfg, bool(states)),
            [*syms, *ws],
            outs,
            (cfg.key, bool(states)),
            rows=True,
        )
        t.vals[res[0].slot].ragged = True
        out: Any = (res[0], (res[1], res[2])) if cfg.mode == "LSTM" else (res[0], res[1])
        traced = traced_of(t, t.finish(syms, res), out, length)
        entry = rt.entries[frozen] = entry_of(rt, type(m).__name__, traced, ins)
        rt.families[family] = entry, traced
    if where is None and not kwargs:
        rt.core.remember((m, "rnn"), m.training, None, args, kwargs, ins, entry)
    y, last = rt.record(entry, ins)
    if where is not None:
        y = y.unsqueeze(where)
        last = tuple(s.unsqueeze(1) for s in last) if cfg.mode == "LSTM" else last.unsqueeze(1)
    return y, last


# ---------------------------------------------------------------------- attention
def _attend(m: nn.MultiheadAttention, x: Any, causal: bool) -> Any:
    qkv = F.linear(x, m.in_proj_weight, m.in_proj_bias)
    return F.linear(_call("self_attention", qkv, m.num_heads, causal), m.out_proj.weight, m.out_proj.bias)


def simple_attention(m: nn.MultiheadAttention) -> bool:
    return bool(
        m._qkv_same_embed_dim
        and m.bias_k is None
        and m.bias_v is None
        and not m.add_zero_attn
        and not (m.dropout and m.training)
    )


def call_attention(rt: LaneRuntime, m: nn.MultiheadAttention, args: Args, kwargs: Kwargs) -> Any:
    names = (
        "query",
        "key",
        "value",
        "key_padding_mask",
        "need_weights",
        "attn_mask",
        "average_attn_weights",
        "is_causal",
    )
    given = dict(zip(names, args), **kwargs)
    x = given["query"]
    if given["key"] is not x or given["value"] is not x or given.get("need_weights", True) or not simple_attention(m):
        return NotImplemented
    if given.get("key_padding_mask") is not None or given.get("attn_mask") is not None or given.get("is_causal"):
        return NotImplemented
    y = _over_rows(rt, m, x, lambda v: _attend(m, v, False), m.batch_first)
    return y if y is NotImplemented else (y, None)


def _encoder_layer(m: nn.TransformerEncoderLayer, x: Any, causal: bool) -> Any:
    act: Any = m.activation

    def feed(v: Any) -> Any:
        return F.linear(act(F.linear(v, m.linear1.weight, m.linear1.bias)), m.linear2.weight, m.linear2.bias)

    def norm(n: nn.LayerNorm, v: Any) -> Any:
        return F.layer_norm(v, n.normalized_shape, n.weight, n.bias, n.eps)

    if m.norm_first:
        x = x + _attend(m.self_attn, norm(m.norm1, x), causal)
        return x + feed(norm(m.norm2, x))
    x = norm(m.norm1, x + _attend(m.self_attn, x, causal))
    return norm(m.norm2, x + feed(x))


def call_encoder_layer(rt: LaneRuntime, m: nn.TransformerEncoderLayer, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("src", "src_mask", "src_key_padding_mask", "is_causal"), args), **kwargs)
    if given.get("src_mask") is not None or given.get("src_key_padding_mask") is not None or given.get("is_causal"):
        return NotImplemented
    parts = (m.dropout, m.dropout1, m.dropout2)
    if not simple_attention(m.self_attn) or (m.training and any(d.p for d in parts)):
        return NotImplemented
    if type(m.norm1) is not nn.LayerNorm or type(m.norm2) is not nn.LayerNorm:
        return NotImplemented
    return _over_rows(rt, m, given["src"], lambda v: _encoder_layer(m, v, False), m.self_attn.batch_first)


def _over_rows(rt: LaneRuntime, m: nn.Module, x: Any, form: Any, batch_first: bool) -> Any:
    """Applies a row-wise form to `[T, E]`; a batch dimension of one is taken off and put back."""
    from plait.batching._cells import call_cell

    if type(x) is not Lazy or x.dim() not in (2, 3):
        return NotImplemented
    where = None
    if x.dim() == 3:
        where = 0 if batch_first else 1
        if x.shape[where] != 1:
            return NotImplemented
        x = x.squeeze(where)
    if x.shape[0] == 0:
        return NotImplemented
    try:
        y = call_cell(rt, m, form, (x,), {}, False, m.training)
    except (NoRule, Abort):
        return NotImplemented
    return y if where is None else y.unsqueeze(where)


RAGGED_MODULES: dict[type, Any] = {
    nn.RNN: call_rnn,
    nn.LSTM: call_rnn,
    nn.GRU: call_rnn,
    nn.MultiheadAttention: call_attention,
    nn.TransformerEncoderLayer: call_encoder_layer,
}
