"""The nine models batched by hand in PyTorch, with the weights of `workloads.py`: what plait.batch is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from settings import EPSILON, MOST, PONDER, choose
from torch import Tensor
from workloads import Workload


class Steps:
    """Sequences longest first, step by step: the rows of step t are the first `sizes[t]` sequences."""

    def __init__(self, lengths: list[int]) -> None:
        n = torch.tensor(lengths)
        self.sorted, self.order = n.sort(descending=True, stable=True)
        t = torch.arange(int(n.max()))
        live = t[:, None] < self.sorted[None]
        first = (n.cumsum(0) - n)[self.order]
        self.sizes = live.sum(1).tolist()
        self.rows = (first + t[:, None])[live]
        self.back = (first + self.sorted - 1 - t[:, None])[live]
        start = torch.tensor([0, *self.sizes]).cumsum(0)
        rank = torch.empty_like(self.order)
        rank[self.order] = torch.arange(len(lengths))
        self.last = start[n - 1] + rank


def recur(xp: Tensor, sizes: list[int], w: Tensor, b: Tensor, lstm: bool) -> Tensor:
    """All steps of a shrinking batch; the states of every step, one under the other."""
    h = c = xp.new_zeros(sizes[0], w.shape[1])
    out = []
    for a, m in zip(xp.split(sizes), sizes):
        if m < len(h):
            h, c = h[:m], c[:m]
        a = torch.addmm(a + b, h, w.t())
        if lstm:
            i, f, g, o = a.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        else:
            h = torch.tanh(a)
        out.append(h)
    return torch.cat(out)


def loop(w: Workload) -> Callable[[], Tensor]:
    xs, ys = w.examples
    m: Any = w.model
    y = torch.stack(ys)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell = m.cell if hasattr(m, "cell") else m.net
    tail = "" if hasattr(m, "cell") else "_l0"
    lstm = type(cell).__name__.startswith("LSTM")

    def run() -> Tensor:
        wi, wh, bi, bh = (getattr(cell, n + tail) for n in names)
        s = Steps([len(x) for x in xs])
        xp = F.linear(torch.cat(xs)[s.rows], wi, bi)
        return F.cross_entropy(m.head(recur(xp, s.sizes, wh, bh, lstm)[s.last]), y, reduction="sum")

    return run


def deciding(w: Workload) -> Callable[[], Tensor]:
    xs, ys = w.examples
    m: Any = w.model
    y = torch.stack(ys)

    def run() -> Tensor:
        s = Steps([len(x) for x in xs])
        xp = m.x(torch.cat(xs)[s.rows])
        h = xp.new_zeros(s.sizes[0], m.h)
        out = []
        for a, k in zip(xp.split(s.sizes), s.sizes):
            a = torch.addmm(a, h[:k], m.s.weight.t())
            h = torch.where(a.detach().mean(1, keepdim=True) > 0, torch.relu(a), torch.tanh(a))
            out.append(h)
        return F.cross_entropy(m.head(torch.cat(out)[s.last]), y, reduction="sum")

    return run


class Levels:
    """Nodes of a forest by height, children before parents.

    Inside a level, nodes stand in the order of the level of their parent: what a level makes is then split into pieces
    that each go to one later level.  No row is looked up twice and no memory grows, so the way back has no scatter into
    all that was made before.  (Reading `torch.cat` of all earlier levels by index costs 1.5 times as much.)
    """

    def __init__(self, children: list[list[int]], roots: list[int]) -> None:
        height: list[int] = []
        for ch in children:
            height.append(1 + max((height[c] for c in ch), default=-1))
        last = max(height) + 1
        goes_to = [last] * len(children)
        for i, ch in enumerate(children):
            for c in ch:
                goes_to[c] = height[i]
        levels: list[list[int]] = [[] for _ in range(last)]
        for i in sorted(range(len(children)), key=lambda i: goes_to[i]):
            levels[height[i]].append(i)
        arrived: list[list[int]] = [[] for _ in range(last + 1)]
        self.targets: list[list[int]] = []
        self.pieces: list[list[int]] = []
        for level in levels:
            count: dict[int, int] = {}
            for i in level:
                count[goes_to[i]] = count.get(goes_to[i], 0) + 1
                arrived[goes_to[i]].append(i)
            self.targets.append(list(count))
            self.pieces.append(list(count.values()))
        wanted = [[c for i in level for c in children[i]] for level in levels]
        self.take = []
        for here, want in zip(arrived, [*wanted, roots]):
            place = {i: k for k, i in enumerate(here)}
            self.take.append(torch.tensor([place[i] for i in want]))
        self.sizes = [len(level) for level in levels]
        self.order = torch.tensor([i for level in levels for i in level])
        counts = [torch.tensor([len(children[i]) for i in level]) for level in levels]
        self.owner = [torch.repeat_interleave(torch.arange(len(n)), n) for n in counts]

    def run(self, step: Callable[[int, Tensor], Tensor]) -> Tensor:
        """`step(level, children's states)` gives the states of a level; returns those of the roots."""
        inbox: list[list[Tensor]] = [[] for _ in self.take]
        for k in range(len(self.sizes)):
            states = step(k, torch.cat(inbox[k])[self.take[k]] if k else self.take[0])
            for target, piece in zip(self.targets[k], states.split(self.pieces[k])):
                inbox[target].append(piece)
        return torch.cat(inbox[-1])[self.take[-1]]


def binary_tree(w: Workload) -> Callable[[], Tensor]:
    trees, xs, ys = w.examples
    m: Any = w.model
    y = torch.stack(ys)
    leaves = sum(len(x) for x in xs)
    children: list[list[int]] = [[] for _ in range(leaves)]
    roots = []
    start = 0
    for tree, x in zip(trees, xs):

        def walk(t: Any, at: int = start) -> int:
            if isinstance(t, int):
                return at + t
            pair = [walk(t[0]), walk(t[1])]
            children.append(pair)
            return len(children) - 1

        roots.append(walk(tree))
        start += len(x)
    plan = Levels(children, roots)
    for k in range(1, len(plan.sizes)):  # all left children, then all right ones
        plan.take[k] = torch.cat([plan.take[k][0::2], plan.take[k][1::2]])

    def run() -> Tensor:
        x = torch.cat(xs)[plan.order[:leaves]]

        def step(k: int, states: Tensor) -> Tensor:
            if k == 0:
                i, o, u = m.leaf_in(x).chunk(3, 1)
                c = torch.sigmoid(i) * torch.tanh(u)
            else:
                left, right = states.chunk(2)
                (hl, cl), (hr, cr) = left.chunk(2, 1), right.chunk(2, 1)
                i, fl, fr, o, u = m.node_in(torch.cat([hl, hr], 1)).chunk(5, 1)
                c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * cl + torch.sigmoid(fr) * cr
            return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], 1)

        return F.cross_entropy(m.head(plan.run(step).chunk(2, 1)[0]), y, reduction="sum")

    return run


def child_sum(w: Workload) -> Callable[[], Tensor]:
    trees, _, ys = w.examples
    m: Any = w.model
    y = torch.stack(ys)
    children: list[list[int]] = []
    labels: list[int] = []

    def walk(t: Any) -> int:
        ch = [walk(c) for c in t[1]]
        children.append(ch)
        labels.append(t[0])
        return len(children) - 1

    roots = [walk(t) for t in trees]
    plan = Levels(children, roots)
    ids = torch.tensor(labels)[plan.order]
    sizes, owner = plan.sizes, plan.owner

    def run() -> Tensor:
        x = m.words(ids)
        xa = m.x(x).split(sizes)
        xf = m.fx(x[sizes[0] :]).split(sizes[1:])

        def step(k: int, states: Tensor) -> Tensor:
            a, kept = xa[k], None
            if k:
                h, c = states.chunk(2, 1)
                none = a.new_zeros(sizes[k], h.shape[1])
                a = torch.addmm(a, none.index_add(0, owner[k], h), m.hs.weight.t())
                f = torch.sigmoid(torch.addmm(xf[k - 1][owner[k]], h, m.fh.weight.t()))
                kept = none.index_add(0, owner[k], f * c)
            i, o, u = a.chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
            if kept is not None:
                c = c + kept
            return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], 1)

        return F.cross_entropy(m.head(plan.run(step).chunk(2, 1)[0]), y, reduction="sum")

    return run


def tagger(w: Workload) -> Callable[[], Tensor]:
    sentences, tags = w.examples
    m: Any = w.model
    flat = [t for s in sentences for t in s]
    known = torch.tensor([t for t in flat if isinstance(t, int)])
    rare = [t for t in flat if not isinstance(t, int)]
    place, a, b = [], 0, len(known)
    for t in flat:
        if isinstance(t, int):
            place.append(a)
            a += 1
        else:
            place.append(b)
            b += 1
    perm, target = torch.tensor(place), torch.cat(tags)

    def both(net: Any, x: Tensor, s: Steps) -> tuple[Tensor, Tensor]:
        outs = []
        for rows, tail in ((s.rows, ""), (s.back, "_reverse")):
            p = [getattr(net, n + "_l0" + tail) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            outs.append(recur(F.linear(x[rows], p[0], p[2]), s.sizes, p[1], p[3], True))
        return outs[0], outs[1]

    def run() -> Tensor:
        s = Steps([len(t) for t in rare])
        f, b = both(m.spell, m.chars(torch.cat(rare)), s)
        x = torch.cat([m.words(known), torch.cat([f[s.last], b[s.last]], 1)])[perm]
        s = Steps([len(t) for t in sentences])
        f, b = both(m.read, x, s)
        inverse, back = torch.empty_like(s.rows), torch.empty_like(s.back)
        inverse[s.rows] = torch.arange(len(s.rows))
        back[s.back] = torch.arange(len(s.back))
        return F.cross_entropy(m.out(torch.cat([f[inverse], b[back]], 1)), target, reduction="sum")

    return run


def parser(w: Workload) -> Callable[[], Tensor]:
    xs, ys = w.examples
    m: Any = w.model
    order = sorted(range(len(xs)), key=lambda k: -len(xs[k]))
    lengths = [len(xs[k]) for k in order]
    data, y = torch.cat([xs[k] for k in order]), torch.stack([ys[k] for k in order])

    def run() -> Tensor:
        tokens = iter(m.tokens(data).unbind(0))
        buffers = [[next(tokens) for _ in range(n)] for n in lengths]
        e0, e1, e2 = m.empty
        stacks: list[list[Tensor]] = [[] for _ in lengths]
        at = [0] * len(lengths)
        scores, taken, t, live = [], [], 0, len(lengths)
        while True:
            while live and t >= 2 * lengths[live - 1] - 1:
                live -= 1
            if not live:
                break
            t += 1
            rows = []
            for k in range(live):
                s = stacks[k]
                rows += [s[-2] if len(s) > 1 else e0, s[-1] if s else e1]
                rows.append(buffers[k][at[k]] if at[k] < lengths[k] else e2)
            sc = m.scores(torch.tanh(m.hidden(torch.stack(rows).view(live, -1))))
            acts = [choose(s, at[k] < lengths[k], len(stacks[k]) > 1) for k, s in enumerate(sc.tolist())]
            scores.append(sc)
            taken += acts
            for a, net in ((1, m.left), (2, m.right)):
                ks = [k for k in range(live) if acts[k] == a]
                if ks:
                    new = net(torch.stack([r for k in ks for r in stacks[k][-2:]]).view(len(ks), -1))
                    for k, v in zip(ks, new.unbind(0)):
                        stacks[k][-2:] = [v]
            for k in range(live):
                if acts[k] == 0:
                    stacks[k].append(buffers[k][at[k]])
                    at[k] += 1
        loss = F.cross_entropy(torch.cat(scores), torch.tensor(taken), reduction="sum")
        return loss + F.cross_entropy(m.head(torch.stack([s[0] for s in stacks])), y, reduction="sum")

    return run


def halting(w: Workload) -> Callable[[], Tensor]:
    xs, ys = w.examples
    m: Any = w.model
    x, target = torch.stack(xs), torch.stack(ys)

    def run() -> Tensor:
        xp = m.x(x)
        s = y = torch.zeros_like(xp)
        used, ids = xp.new_zeros(len(xp), 1), torch.arange(len(xp))
        out, rest, who, steps = [], [], [], 0
        for n in range(1, MOST + 1):
            s = torch.tanh(torch.addmm(xp, s, m.s.weight.t()))
            q = torch.sigmoid(m.halt(s))
            steps += len(ids)
            stop = (used + q).detach()[:, 0] >= 1 - EPSILON
            if n == MOST:
                stop = torch.ones_like(stop)
            h = stop.nonzero()[:, 0]
            if len(h):
                r = 1 - used[h]
                out.append(y[h] + r * s[h])
                rest.append(r)
                who.append(ids[h])
                go = (~stop).nonzero()[:, 0]
                if not len(go):
                    break
                s, q, y, xp, used, ids = s[go], q[go], y[go], xp[go], used[go], ids[go]
            y, used = y + q * s, used + q
        loss = F.cross_entropy(m.head(torch.cat(out)), target[torch.cat(who)], reduction="sum")
        return loss + PONDER * (torch.cat(rest).sum() + steps)

    return run


def encoder(w: Workload) -> Callable[[], Tensor]:
    xs, ys = w.examples
    m: Any = w.model
    y = torch.stack(ys)
    lengths = [len(x) for x in xs]

    def run() -> Tensor:
        layer, n = m.layer, torch.tensor(lengths)
        a, top = layer.self_attn, int(n.max())
        x = torch.cat(xs)
        owner = torch.repeat_interleave(torch.arange(len(xs)), n)
        at = owner * top + torch.arange(len(x)) - torch.repeat_interleave(n.cumsum(0) - n, n)
        qkv = F.linear(x, a.in_proj_weight, a.in_proj_bias)
        if x.shape[1] < 128:  # padded where that is cheaper than a call for each
            pad = x.new_zeros(len(xs) * top, qkv.shape[1]).index_copy(0, at, qkv).view(len(xs), top, -1)
            q, k, v = pad.view(len(xs), top, 3, a.num_heads, -1).permute(2, 0, 3, 1, 4)
            live = (torch.arange(top) < n[:, None])[:, None, None, :]
            att = F.scaled_dot_product_attention(q, k, v, attn_mask=live).transpose(1, 2)
            att = att.reshape(len(xs) * top, -1)[at]
        else:
            parts = []
            for r in qkv.split(lengths):
                q, k, v = r.view(len(r), 3, a.num_heads, -1).permute(1, 2, 0, 3)
                one = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
                parts.append(one.transpose(0, 1).reshape(len(r), -1))
            att = torch.cat(parts)
        x = layer.norm1(x + a.out_proj(att))
        x = layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))
        mean = x.new_zeros(len(xs), x.shape[1]).index_add(0, owner, x) / n[:, None]
        return F.cross_entropy(m.head(mean), y, reduction="sum")

    return run


FORMS: dict[str, Callable[[Workload], Callable[[], Tensor]]] = {
    "W1": loop, "W1r": loop, "W1L": loop, "W1Lr": loop, "W2": deciding, "W3": binary_tree, "W3A": child_sum, "W4": tagger,
    "W5": parser, "W6": halting, "W7": encoder,
}  # fmt: skip
