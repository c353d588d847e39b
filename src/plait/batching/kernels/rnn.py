"""`nn.RNN`, `nn.LSTM`, `nn.GRU` over sequences of any lengths: one node, run longest first as a shrinking prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from plait._torch import kernel
from plait.batching._program import Rows

if TYPE_CHECKING:
    from plait.batching._backward import Accumulator

aten = torch.ops.aten
tanh_backward = kernel(aten.tanh_backward.default)
tanh_back = kernel(aten.tanh_backward.grad_input)
sigmoid_back = kernel(aten.sigmoid_backward.grad_input)
relu_back = kernel(aten.threshold_backward.grad_input)


class Config:
    """What of an RNN module is not a tensor."""

    __slots__ = ("bias", "directions", "hidden", "layers", "mode")

    def __init__(self, mode: str, hidden: int, layers: int, directions: int, bias: bool) -> None:
        self.mode = mode
        self.hidden = hidden
        self.layers = layers
        self.directions = directions
        self.bias = bias

    @property
    def key(self) -> tuple[Any, ...]:
        return self.mode, self.hidden, self.layers, self.directions, self.bias

    @property
    def per(self) -> int:
        """Weights per layer and direction."""
        return 4 if self.bias else 2


class TimeMajor:
    """Index maps between rows in example order and rows step by step, longest example first."""

    def __init__(self, rows: Rows) -> None:
        lengths = rows.sizes
        longest = int(lengths.max())
        sorted_, order = torch.sort(lengths, descending=True, stable=True)
        steps = torch.arange(longest, device=lengths.device)
        live = steps[:, None] < sorted_[None]
        first = (torch.cumsum(lengths, 0) - lengths)[order]
        self.sizes: list[int] = live.sum(1).tolist()
        self.forward = (first[None] + steps[:, None])[live]
        self.reverse = ((first + sorted_ - 1)[None] - steps[:, None])[live]
        self.order = order
        start = torch.tensor([0, *self.sizes], device=lengths.device).cumsum(0)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=lengths.device)
        self.last = start[lengths - 1] + rank  # time-major row of each example's last step


def step_back_lstm(a: Tensor, d: Tensor, h: int, tc: Tensor, cp: Tensor | None, dh: Tensor, dc: Tensor) -> Tensor:
    """Gradients of the gates of one step into `d`; returns the gradient of the cell state before it."""
    i, f, g, o = torch.split_with_sizes(a, (h, h, h, h), 1)
    di, df, dg, do = torch.split_with_sizes(d, (h, h, h, h), 1)
    torch.mul(dh, tc, out=do)
    dc = dc + tanh_backward(dh * o, tc)
    torch.mul(dc, g, out=di)
    torch.mul(dc, i, out=dg)
    if cp is None:
        df.zero_()
    else:
        torch.mul(dc, cp, out=df)
    sigmoid_back(d[:, : 2 * h], a[:, : 2 * h], grad_input=d[:, : 2 * h])
    tanh_back(dg, g, grad_input=dg)
    sigmoid_back(do, o, grad_input=do)
    return dc * f


class Direction:
    """One layer in one direction: forward keeps what backward needs."""

    def __init__(
        self,
        cfg: Config,
        tm: TimeMajor,
        source: Tensor,
        rows: Tensor,
        w: Sequence[Tensor],
        h0: Tensor | None,
        c0: Tensor | None,
    ) -> None:
        """`source` has the inputs in the order of the examples, `rows` says which of them comes when."""
        self.cfg, self.tm, self.source, self.rows, self.w = cfg, tm, source, rows, w
        self.h0, self.c0 = h0, c0
        x = source.index_select(0, rows)  # not kept: the way back takes it again, a piece at a time
        k = cfg.hidden
        n = x.shape[0]
        gru = cfg.mode == "GRU"
        bias = None
        if cfg.bias:
            bias = w[2] if gru else w[2] + w[3]
        self.a = torch.addmm(bias, x, w[0].t()) if bias is not None else x @ w[0].t()
        self.h = x.new_empty(n, k)
        if cfg.mode == "LSTM":
            self.c, self.tc = torch.empty_like(self.h), torch.empty_like(self.h)
        if gru:
            self.gh = x.new_empty(n, 3 * k)
        getattr(self, "_" + cfg.mode.lower())(w[1].t())

    def _steps(self, x: Tensor) -> Sequence[Tensor]:
        """The rows of each step."""
        return torch.split_with_sizes(x, self.tm.sizes)

    def _befores(self, steps: Sequence[Tensor], first: Tensor | None) -> list[Tensor | None]:
        """For each step the state before it, of those examples that have the step."""
        sizes = self.tm.sizes
        return [first, *[x if k == m else x[:m] for x, k, m in zip(steps, sizes, sizes[1:])]]

    def _lstm(self, wt: Tensor) -> None:
        k = self.cfg.hidden
        hs, cs = self._steps(self.h), self._steps(self.c)
        befores = zip(self._befores(hs, self.h0), self._befores(cs, self.c0))
        for a, h, c, tc, (hp, cp) in zip(self._steps(self.a), hs, cs, self._steps(self.tc), befores):
            if hp is not None:
                a.addmm_(hp, wt)
            i, f, g, o = torch.split_with_sizes(a, (k, k, k, k), 1)
            a[:, : 2 * k].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(i, g, out=c)
            if cp is not None:
                c.addcmul_(f, cp)
            torch.mul(o, torch.tanh(c, out=tc), out=h)

    def _rnn_tanh(self, wt: Tensor) -> None:
        self._rnn(wt, Tensor.tanh_)

    def _rnn_relu(self, wt: Tensor) -> None:
        self._rnn(wt, Tensor.relu_)

    def _rnn(self, wt: Tensor, act: Callable[[Tensor], Tensor]) -> None:
        self.h = self.a
        steps = self._steps(self.a)
        for a, hp in zip(steps, self._befores(steps, self.h0)):
            if hp is not None:
                a.addmm_(hp, wt)
            act(a)

    def _gru(self, wt: Tensor) -> None:
        k = self.cfg.hidden
        b = self.w[3] if self.cfg.bias else None
        hs = self._steps(self.h)
        for a, gh, h, hp in zip(self._steps(self.a), self._steps(self.gh), hs, self._befores(hs, self.h0)):
            if hp is None:
                gh.copy_(b.expand_as(gh)) if b is not None else gh.zero_()
            elif b is None:
                torch.mm(hp, wt, out=gh)
            else:
                torch.addmm(b, hp, wt, out=gh)
            rz = a[:, : 2 * k]
            rz.add_(gh[:, : 2 * k]).sigmoid_()
            n = a[:, 2 * k :].addcmul_(a[:, :k], gh[:, 2 * k :]).tanh_()
            z = a[:, k : 2 * k]
            if hp is None:
                torch.mul(1 - z, n, out=h)
            else:
                torch.lerp(n, hp, z, out=h)

    # ------------------------------------------------------------------ the way back
    def backward(
        self,
        gh: Tensor,
        gl: Tensor | None,
        gc: Tensor | None,
        need_x: bool,
        acc: Accumulator,
        real: Sequence[Tensor],
    ) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """`gh`: gradient of every step's output; `gl`, `gc`: of the last states, longest example first."""
        cfg, sizes = self.cfg, self.tm.sizes
        k = cfg.hidden
        d = torch.empty_like(self.a)
        d2 = torch.empty_like(self.a) if cfg.mode == "GRU" else d
        whh = self.w[1]
        gs, as_, ds, d2s = self._steps(gh), self._steps(self.a), self._steps(d), self._steps(d2)
        hs = self._befores(self._steps(self.h), self.h0)
        # All examples' states, longest first: those whose last step is still to come wait at the end.
        state = gl.clone() if gl is not None else gh.new_zeros(sizes[0], k)
        cell = state
        if cfg.mode == "LSTM":
            cell = gc.clone() if gc is not None else gh.new_zeros(sizes[0], k)
            tcs, cs = self._steps(self.tc), self._befores(self._steps(self.c), self.c0)
        if cfg.mode == "GRU":
            ghs = self._steps(self.gh)
        dh = state[:0]
        for t in range(len(sizes) - 1, -1, -1):
            if len(dh) != sizes[t]:
                dh = state[: sizes[t]]
            dh.add_(gs[t])
            if cfg.mode == "GRU":
                dh.copy_(self._gru_back(as_[t], ds[t], d2s[t], ghs[t], hs[t], dh))
                continue
            if cfg.mode == "LSTM":
                dc = cell[: sizes[t]]
                dc.copy_(step_back_lstm(as_[t], ds[t], k, tcs[t], cs[t], dh, dc))
            elif cfg.mode == "RNN_TANH":
                tanh_back(dh, as_[t], grad_input=ds[t])
            else:
                relu_back(dh, as_[t], 0, grad_input=ds[t])
            if hs[t] is not None:
                torch.mm(ds[t], whh, out=dh)
        if cfg.bias and cfg.mode != "GRU":
            db = d.sum(0)
            for b in real[2:4]:
                if b.requires_grad:
                    acc.add(b, db)
        bias = real[2] if cfg.bias and cfg.mode == "GRU" else None
        for piece, rows in zip(d.split(acc.ROWS), self.rows.split(acc.ROWS)):  # type: ignore[no-untyped-call]
            acc.linear(real[0], bias, piece, self.source.index_select(0, rows))
        bias = real[3] if cfg.bias and cfg.mode == "GRU" else None
        for g, hp in zip(d2s, hs):
            if hp is not None:
                acc.linear(real[1], bias, g, hp)
            elif bias is not None and bias.requires_grad:
                acc.add(bias, g.sum(0))
        acc.settle()
        return (d @ self.w[0] if need_x else None), state, cell if cfg.mode == "LSTM" else None

    def _gru_back(self, a: Tensor, d: Tensor, d2: Tensor, gh: Tensor, hp: Tensor | None, dh: Tensor) -> Tensor:
        k = self.cfg.hidden
        r, z, n = torch.split_with_sizes(a, (k, k, k), 1)
        dr, dz, dn = torch.split_with_sizes(d, (k, k, k), 1)
        torch.mul(dh, (hp - n) if hp is not None else -n, out=dz)
        torch.mul(dh, 1 - z, out=dn)
        tanh_back(dn, n, grad_input=dn)
        torch.mul(dn, gh[:, 2 * k :], out=dr)
        sigmoid_back(d[:, : 2 * k], a[:, : 2 * k], grad_input=d[:, : 2 * k])
        d2[:, : 2 * k] = d[:, : 2 * k]
        torch.mul(dn, r, out=d2[:, 2 * k :])
        return torch.addmm(dh * z, d2, self.w[1])


class RNNKernel:
    """Forward and backward of a whole module call, in the interface of a compiled program."""

    def __init__(self, cfg: Config, has_state: bool, tracks: bool) -> None:
        self.cfg = cfg
        self.has_state = has_state
        self.tracks = tracks  # the sequences want a gradient

    def _shapes(self, ctx: Rows) -> list[tuple[int, ...]]:
        state = (ctx.n, self.cfg.layers * self.cfg.directions, self.cfg.hidden)
        return [(ctx.total, self.cfg.directions * self.cfg.hidden), state, state]

    def backward_for(self, given: tuple[bool, ...]) -> Any:
        return self.backward

    def forward(self, ctx: Rows, args: list[Tensor], w: list[Tensor], outs: list[Tensor]) -> Any:
        cfg = self.cfg
        tm = TimeMajor(ctx)
        x = args[0]
        states = args[1:] if self.has_state else []
        runs: list[Direction] = []
        k = cfg.hidden
        for layer in range(cfg.layers):
            parts = []
            for j in range(cfg.directions):
                at = layer * cfg.directions + j
                ws = w[at * cfg.per : (at + 1) * cfg.per]
                rows = tm.reverse if j else tm.forward
                init = [s[:, at].index_select(0, tm.order) for s in states]
                run = Direction(
                    cfg,
                    tm,
                    x,
                    rows,
                    ws,
                    init[0] if init else None,
                    init[1] if len(init) > 1 else None,
                )
                runs.append(run)
                if layer == cfg.layers - 1:
                    outs[0][:, j * k : (j + 1) * k].index_copy_(0, rows, run.h)
                else:
                    parts.append(x.new_empty(x.shape[0], k).index_copy_(0, rows, run.h))
                outs[1][:, at] = run.h.index_select(0, tm.last)
                if cfg.mode == "LSTM":
                    outs[2][:, at] = run.c.index_select(0, tm.last)
            if parts:
                x = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return tm, runs

    def backward(
        self,
        ctx: Rows,
        saved: Any,
        gouts: list[Tensor],
        real: list[Tensor],
        w: list[Tensor],
        acc: Accumulator,
    ) -> list[Tensor | None]:
        cfg = self.cfg
        tm, runs = saved
        filled = [
            g if g is not None else torch.zeros(s, dtype=w[0].dtype, device=w[0].device)
            for g, s in zip(gouts, self._shapes(ctx))
        ]
        gouts = filled
        g = gouts[0]
        k, dirs = cfg.hidden, cfg.directions
        gstates: list[list[Tensor]] = [[], []]
        for layer in range(cfg.layers - 1, -1, -1):
            gx: Tensor | None = None
            for j in range(dirs):
                at = layer * dirs + j
                rows = tm.reverse if j else tm.forward
                gl = gouts[1][:, at].index_select(0, tm.order)
                gc = gouts[2][:, at].index_select(0, tm.order) if cfg.mode == "LSTM" else None
                part = g[:, j * k : (j + 1) * k].index_select(0, rows)
                need = layer > 0 or self.tracks
                dx, dh, dc = runs[at].backward(part, gl, gc, need, acc, real[at * cfg.per : (at + 1) * cfg.per])
                if not acc.keep:
                    runs[at] = None
                if dx is not None:
                    back = torch.empty_like(dx).index_copy_(0, rows, dx)
                    gx = back if gx is None else gx + back
                if self.has_state:
                    for s, v in zip(gstates, (dh, dc)):
                        if v is not None:
                            u = torch.empty_like(v)
                            u.index_copy_(0, tm.order, v)
                            s.append(u)
            if gx is not None:
                g = gx
        res: list[Tensor | None] = [g if self.tracks else None]
        if self.has_state:
            for s in gstates[: 2 if cfg.mode == "LSTM" else 1]:
                # filled from the last layer to the first, directions in order
                per = [s[i : i + dirs] for i in range(0, len(s), dirs)][::-1]
                res.append(torch.stack([v for layer in per for v in layer], 1))
        return res


def config(m: nn.RNNBase) -> Config | None:
    if m.proj_size or (m.dropout and m.training and m.num_layers > 1):
        return None
    return Config(m.mode, m.hidden_size, m.num_layers, 2 if m.bidirectional else 1, m.bias)


def weights(m: nn.RNNBase) -> list[Tensor]:
    own = m._parameters  # where `getattr` looks last
    names = [n for per in m._all_weights for n in per]
    return [own[n] if own.get(n) is not None else getattr(m, n) for n in names]  # type: ignore[misc]
