"""`nn.RNN`, `nn.LSTM`, `nn.GRU` out of plain differentiable ops, for gradients of gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plait.batching._program import Rows
from plait.batching.kernels.rnn import Config


def plain_rnn(cfg: Config, has_state: bool) -> Any:
    """What `RNNKernel` computes, one example after the other."""

    def fn(rows: Rows, x: Tensor, *rest: Tensor) -> Any:
        n_states = (2 if cfg.mode == "LSTM" else 1) if has_state else 0
        states, weights = rest[:n_states], list(rest[n_states:])
        parts = x.split(rows.lengths or [1] * rows.n)  # type: ignore[no-untyped-call]
        outs, hs, cs = [], [], []
        for e, p in enumerate(parts):
            h = [s[e] for s in states] or [
                x.new_zeros(cfg.layers * cfg.directions, cfg.hidden) for _ in range(2 if cfg.mode == "LSTM" else 1)
            ]
            y, last = _one(cfg, p, h, weights)
            outs.append(y)
            hs.append(last[0])
            if cfg.mode == "LSTM":
                cs.append(last[1])
        res = [torch.cat(outs), torch.stack(hs)]
        return (*res, torch.stack(cs)) if cs else tuple(res)

    return fn


def _one(cfg: Config, x: Tensor, state: list[Tensor], w: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """One example, out of plain differentiable ops."""
    k = cfg.hidden
    lasts: list[list[Tensor]] = [[], []]
    for layer in range(cfg.layers):
        parts = []
        for j in range(cfg.directions):
            at = layer * cfg.directions + j
            ws = w[at * cfg.per : (at + 1) * cfg.per]
            h, c = state[0][at], state[1][at] if len(state) > 1 else None
            gi = torch.nn.functional.linear(x, ws[0], ws[2] if cfg.bias else None)
            ys: list[Tensor] = [x] * x.shape[0]
            for t in range(x.shape[0] - 1, -1, -1) if j else range(x.shape[0]):
                gh = torch.nn.functional.linear(h, ws[1], ws[3] if cfg.bias else None)
                if cfg.mode == "LSTM":
                    i, f, g, o = (gi[t] + gh).chunk(4)
                    assert c is not None
                    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                    h = torch.sigmoid(o) * torch.tanh(c)
                elif cfg.mode == "GRU":
                    r, z = torch.sigmoid(gi[t, : 2 * k] + gh[: 2 * k]).chunk(2)
                    n = torch.tanh(gi[t, 2 * k :] + r * gh[2 * k :])
                    h = n + z * (h - n)
                else:
                    h = torch.tanh(gi[t] + gh) if cfg.mode == "RNN_TANH" else torch.relu(gi[t] + gh)
                ys[t] = h
            parts.append(torch.stack(ys))
            lasts[0].append(h)
            if c is not None:
                lasts[1].append(c)
        x = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
    return x, [torch.stack(v) for v in lasts if v]
