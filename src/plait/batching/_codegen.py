"""Writes the source of a compiled program."""

from __future__ import annotations

import re
from typing import Any

from plait.batching._program import Instr, Program
from plait.batching.kernels._table import Slot

ACTS = ("sigmoid", "tanh", "relu")
# How the gradient goes back through an activation that was done in place.
BACK = {
    "sigmoid": "sigmoid_back({g}, {y}, grad_input={out})",
    "tanh": "tanh_back({g}, {y}, grad_input={out})",
    "relu": "relu_back({g}, {y}, 0, grad_input={out})",
}


class Unsupported(Exception):
    """This program keeps to plain autograd."""


class Grad:
    """One contribution to a gradient: an expression, and how to have it written into given memory."""

    __slots__ = ("expr", "into")

    def __init__(self, expr: str, into: str | None = None) -> None:
        self.expr = expr
        self.into = into


class Writer:
    """State while one program is written; the rules in `kernels/vjp` talk to it."""

    def __init__(self, p: Program, rules: dict[str, Any], given: tuple[bool, ...] | None = None) -> None:
        self.given = given
        self.p = p
        self.rules = rules
        self.fwd: list[str] = []
        self.bwd: list[str] = []
        self.grads: dict[int, list[Grad]] = {}
        self.targets: dict[int, str] = {}
        self.users: dict[int, list[Instr]] = {}
        for i in p.code:
            for k in i.ins:
                if k >= 0:
                    self.users.setdefault(k, []).append(i)
        self.out_of = {v: k for k, v in enumerate(p.outs)}
        self.maker = {o: i for i in p.code for o in i.outs}
        self.number = {id(i): k for k, i in enumerate(p.code)}
        self.done: set[int] = set()  # instructions that another one has written along
        self.gates = self._find_gates()
        self.tmp = 0
        self.delayed: dict[int, tuple[str, str, str]] = {}  # products that wait for the addition that uses them
        self.saved_extra: list[str] = []
        self.overwritten: set[int] = set()  # values whose memory the forward code takes for another

    # ------------------------------------------------------------------ names and shapes
    def name(self, k: int) -> str:
        return f"v{k}" if k >= 0 else f"W[{~k}]"

    def inner(self, k: int) -> tuple[int, ...]:
        return self.p.vals[k].inner

    def tracks(self, k: int) -> bool:
        return k >= 0 and self.p.vals[k].tracks

    def single(self, k: int) -> bool:
        """Used exactly once and not a result: whoever uses it may have its memory."""
        return len(self.users.get(k, ())) == 1 and k not in self.out_of

    def fresh(self) -> str:
        self.tmp += 1
        return f"t{self.tmp}"

    def batch(self, k: int) -> str:
        return "N" if self.p.vals[k].ragged else "n"

    def use(self, a: Any) -> str:
        """The source of an argument; a delayed product is written out first."""
        return a if isinstance(a, str) else self.flush(a) if a >= 0 else self.name(a)

    def flush(self, k: int) -> str:
        waiting = self.delayed.pop(k, None)
        if waiting is not None:
            kind, x, y = waiting
            self.line(f"v{k} = {'mm' if kind == 'mm' else 'mul'}({x}, {y})")
        return f"v{k}"

    def later(self, add: Instr, k: int) -> bool:
        """Whether the product `k` is better joined with the addition that uses it: both operands of one shape."""
        if id(add) in self.done or (add.consts and add.consts[-1] is not None) or len(add.ins) != 2:
            return False
        other = add.ins[0] if add.ins[1] == k else add.ins[1]
        if other < 0 or other == k:
            return False
        a, b, o = self.p.vals[other], self.p.vals[k], self.p.vals[add.outs[0]]
        return (
            a.inner == b.inner == o.inner and a.dtype == b.dtype and a.ragged == b.ragged and other not in self.delayed
        )

    def args_of(self, i: Instr) -> list[Any]:
        """The arguments of an elementwise call: names of operands, or scalars as source."""
        spec = i.consts[-1] if i.consts else None
        if spec is None:
            return list(i.ins)
        (_, (args, kwargs)) = spec
        if kwargs:
            raise Unsupported
        res: list[Any] = []
        for a in args[1]:
            if type(a) is Slot:
                res.append(i.ins[a.k])
            elif isinstance(a, tuple) and len(a) == 2 and a[0] in (float, int, bool):
                v = a[1]
                if a[0] is float and v in ("nan", "inf", "-inf"):
                    v = f"float({v!r})"
                res.append(str(v))
            else:
                raise Unsupported
        return res

    # ------------------------------------------------------------------ forward
    def _find_gates(self) -> dict[int, list[tuple[int, int, str, int]]]:
        """Tensors that are only ever cut into pieces which each go through one activation: done in place."""
        found: dict[int, list[tuple[int, int, str, int]]] = {}
        for a, users in self.users.items():
            v = self.p.vals[a]
            if a in self.out_of or a in self.p.ins or len(v.inner) != 1 or len(users) < 2:
                continue
            if self.maker[a].op not in ("linear", "add", "matmul_w"):
                continue
            pieces = []
            for u in users:
                if u.op != "narrow" or not self.single(u.outs[0]):
                    break
                act = self.users[u.outs[0]][0]
                if act.op not in ACTS or act.consts[-1] is not None:
                    break
                pieces.append((u.consts[1], u.consts[2], act.op, act.outs[0]))
            else:
                pieces.sort()
                at = 0
                for s, k, _, _ in pieces:
                    if s != at:
                        break
                    at += k
                else:
                    if at == v.inner[0]:
                        found[a] = pieces
                        for u in users:
                            self.done.add(id(u))
                            self.done.add(id(self.users[u.outs[0]][0]))
        return found

    def runs(self, a: int) -> list[tuple[int, int, str, list[tuple[int, int, str, int]]]]:
        """Neighbouring pieces with the same activation, together."""
        res: list[Any] = []
        for piece in self.gates[a]:
            if res and res[-1][2] == piece[2]:
                s, k, op, ps = res[-1]
                res[-1] = (s, k + piece[1], op, [*ps, piece])
            else:
                res.append((piece[0], piece[1], piece[2], [piece]))
        return res

    def forward(self) -> None:
        for k, i in enumerate(self.p.code):
            if id(i) in self.done:
                continue
            rule = self.rules.get(i.op)
            if rule is None:
                xs = ", ".join(self.name(x) for x in i.ins)
                outs = ", ".join(f"v{o}" for o in i.outs)
                self.line(f"{outs} = f{k}({'ctx, ' if i.rows else ''}{xs})")
            else:
                rule.forward(self, i)
            for o in i.outs:
                if o in self.gates:
                    self._activate(o)
                if o in self.out_of and f"O[{self.out_of[o]}]" not in self.fwd[-1]:
                    self.line(f"O[{self.out_of[o]}].copy_(v{o})")

    def _activate(self, a: int) -> None:
        runs = self.runs(a)
        parts = [self.fresh() for _ in runs]
        self.fwd += _cut(f"v{a}", parts, [r[1] for r in runs])
        for t, (_, _, op, pieces) in zip(parts, runs):
            self.line(f"{t}.{op}_()")
            self.fwd += _cut(t, [f"v{q[3]}" for q in pieces], [q[1] for q in pieces])
        for _, _, _, o in self.gates[a]:
            if o in self.out_of:
                self.line(f"O[{self.out_of[o]}].copy_(v{o})")

    def line(self, s: str) -> None:
        self.fwd.append(s)

    def set(self, o: int, func: str, args: str, out: bool = True) -> None:
        """`v_o = func(args)`, into its rows if it is a result."""
        if out and o in self.out_of:
            self.line(f"v{o} = {func}({args}, out=O[{self.out_of[o]}])")
        else:
            self.line(f"v{o} = {func}({args})")

    # ------------------------------------------------------------------ backward
    def give(self, k: int, expr: str, into: str | None = None) -> None:
        """Adds a contribution to the gradient of operand `k` (already in its physical shape)."""
        if k < 0:
            self.bwd.append(f"acc.add(S[{~k}], {expr})")
        elif self.tracks(k):
            self.grads.setdefault(k, []).append(Grad(expr, into))

    def grad(self, k: int) -> str | None:
        """The name of the finished gradient of value `k`."""
        got = self.grads.get(k)
        if k in self.targets and got:
            return self.write(k, self.targets[k])
        if not got:
            return None
        if len(got) == 1 and got[0].expr.isidentifier():
            return got[0].expr
        g = f"g{k}"
        self.bwd.append(f"{g} = {got[0].expr}")
        for more in got[1:]:
            self.bwd.append(f"{g} = {_plus(g, more.expr)}")
        self.grads[k] = [Grad(g)]
        return g

    def write(self, k: int, target: str) -> str:
        """Has the gradient of `k` written into `target`."""
        got = self.grads[k]
        if len(got) == 1 and got[0].expr == target:
            return target
        first, rest = got[0], got[1:]
        self.bwd.append(first.into.format(target) if first.into else f"{target}.copy_({first.expr})")
        for more in rest:
            self.bwd.append(f"{target}.add_({more.expr})")
        self.grads[k] = [Grad(target)]
        return target

    def backward(self) -> None:
        for k, v in enumerate(self.p.outs):
            if self.tracks(v) and (self.given is None or self.given[k]):
                self.grads.setdefault(v, []).append(Grad(f"G{k}"))
        gated = {o: a for a, pieces in self.gates.items() for _, _, _, o in pieces}
        left = {a: len(pieces) for a, pieces in self.gates.items()}
        opened: set[int] = set()
        for i in reversed(self.p.code):
            if id(i) in self.done:
                o = i.outs[0]
                if o in gated and self.tracks(o):
                    a = gated[o]
                    if a not in opened:
                        opened.add(a)
                        self._open(a)
                    if o in self.grads:
                        self.write(o, self.targets[o])
                    else:
                        self.bwd.append(f"{self.targets[o]}.zero_()")
                    left[a] -= 1
                    if left[a] == 0:
                        self._close(a)
                continue
            if any(self.tracks(o) and o in self.grads for o in i.outs):
                self.rules[i.op].backward(self, i)

    def _open(self, a: int) -> None:
        self.bwd.append(f"g{a} = empty_like(v{a})")
        names = [f"q{a}_{j}" for j in range(len(self.runs(a)))]
        self.bwd += _cut(f"g{a}", names, [r[1] for r in self.runs(a)])
        for name, (_, _, _, pieces) in zip(names, self.runs(a)):
            parts = [name] if len(pieces) == 1 else [f"{name}_{m}" for m in range(len(pieces))]
            self.bwd += _cut(name, parts, [q[1] for q in pieces])
            for part, q in zip(parts, pieces):
                self.targets[q[3]] = part

    def _pieces(self, a: int) -> list[str]:
        """The values of gates and of runs of gates, for the way back."""
        lines = _cut(f"v{a}", [f"s{a}_{j}" for j in range(len(self.runs(a)))], [r[1] for r in self.runs(a)])
        for j, (_, _, _, pieces) in enumerate(self.runs(a)):
            lines += _cut(f"s{a}_{j}", [f"v{q[3]}" for q in pieces], [q[1] for q in pieces])
        return lines

    def _close(self, a: int) -> None:
        for j, (_, _, op, _) in enumerate(self.runs(a)):
            q = f"q{a}_{j}"
            self.bwd.append(BACK[op].format(g=q, y=f"s{a}_{j}", out=q))
        self.grads[a] = [Grad(f"g{a}")]

    # ------------------------------------------------------------------ the whole
    def source(self, like: str | None = None) -> str:
        """Both functions; with `like`, the backward unpacks what the forward of that source saves. A gradient that is a
        product comes back as its two factors, since it may be added to others in the call that makes it."""
        p = self.p
        self.forward()
        self.backward()
        last: list[str] = []
        for v in p.ins:
            got = self.grads.get(v, ()) if self.tracks(v) and v not in self.targets else ()
            product = re.fullmatch(r"mm(\([^()]*\))", got[0].expr) if len(got) == 1 else None
            g = product[1] if product else self.grad(v) if self.tracks(v) else None
            last.append(g or "None")
        names = set()
        text = "\n".join([*self.bwd, *last])
        made = {f"v{v}" for v in p.ins} | {f"v{o}" for i in p.code for o in i.outs} | set(self.saved_extra)
        hidden = {f"v{q[3]}" for pieces in self.gates.values() for q in pieces}
        for w in re.findall(r"\b[vx]\d+(?:_\d+)?\b", text):
            if w in made and w not in hidden:
                names.add(w)
        for a in self.gates:
            names.add(f"v{a}")
        for pieces in self.gates.values():
            for _, _, _, o in pieces:
                names.discard(f"v{o}")
        kept = sorted(names)
        if like is not None:
            saved = next(x for x in like.splitlines() if x.startswith("    return ("))
            kept = [w.strip() for w in saved[len("    return (") : -1].split(",") if w.strip()]
        body = [f"    v{v} = A[{k}]" for k, v in enumerate(p.ins)]
        body += _sizes(self.fwd)
        body += [f"    {s}" for s in self.fwd]
        body.append(f"    return ({', '.join(kept)}{',' if kept else ''})")
        back = []
        if kept:
            back.append(f"    {', '.join(kept)}, = saved")
        back += _sizes(self.bwd)
        back += [f"    G{k} = G[{k}]" for k, v in enumerate(p.outs) if self.tracks(v)]
        for a in self.gates:
            back += [f"    {s}" for s in self._pieces(a)]
        back += [f"    {s}" for s in self.bwd]
        back.append(f"    return ({', '.join(last)}{',' if last else ''})")
        return (
            "def forward(ctx, A, W, O):\n"
            + "\n".join(body)
            + "\n\ndef backward(ctx, saved, G, S, W, acc):\n"
            + "\n".join(back)
            + "\n"
        )

    def transposed(self, k: int) -> str:
        """The source of a shared matrix, transposed: `Sig.load_weights` puts those after the weights."""
        return f"W[{~k + self.p.n_shared}]"


def _cut(whole: str, parts: list[str], sizes: list[int]) -> list[str]:
    """Lines that cut a tensor into neighbouring columns."""
    if parts == [whole]:
        return []
    if len(parts) == 1:
        return [f"{parts[0]} = {whole}"]
    return [f"{', '.join(parts)} = {whole}.split_with_sizes({sizes}, 1)"]


def _plus(g: str, expr: str) -> str:
    """`g + expr`; a product is added in the call that makes it."""
    tensor = r"(?:[a-zG]\d\w*|W\[\d+\])"
    product = re.fullmatch(rf"(mm|mul)\(({tensor}, {tensor})\)", expr)
    if product is None:
        return f"add({g}, {expr})"
    return f"{'addmm' if product[1] == 'mm' else 'addcmul'}({g}, {product[2]})"


def _sizes(lines: list[str]) -> list[str]:
    """The numbers of examples and of ragged rows, if the code asks for them."""
    text = "\n".join(lines)
    return [
        f"    {name} = ctx.{full}" for name, full in (("n", "n"), ("N", "total")) if re.search(rf"\b{name}\b", text)
    ]
