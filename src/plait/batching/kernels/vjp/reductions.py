"""Derivative rules of sums and means, and of what spreads a value over rows."""

from __future__ import annotations

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr
from plait.batching.kernels.vjp._rule import Rule, dtypes_equal, shape_of

RULES: dict[str, Rule] = {}


def _reduction(mean: bool) -> Rule:
    name = "mean" if mean else "sum"

    def check(w: Writer, i: Instr) -> tuple[tuple[int, ...], bool]:
        dims, keep, rest = i.consts
        dtypes_equal(w, i)
        if rest or not dims:
            raise Unsupported
        return dims, keep

    def forward(w: Writer, i: Instr) -> None:
        dims, keep = check(w, i)
        w.set(i.outs[0], f"torch.{name}", f"{w.use(i.ins[0])}, {list(dims)}, {keep}")

    def backward(w: Writer, i: Instr) -> None:
        dims, keep = check(w, i)
        x = i.ins[0]
        g = str(w.grad(i.outs[0]))
        if not keep:
            for d in sorted(dims):
                g += f".unsqueeze({d})"
        size = 1
        for d in dims:
            size *= w.inner(x)[d - 1]
        if mean:
            g = f"({g} / {size})"
        w.give(x, f"{g}.expand{shape_of(w, x)}")

    return Rule(forward, backward)


RULES["sum"] = _reduction(False)
RULES["mean"] = _reduction(True)


def _segment(mean: bool) -> Rule:
    def forward(w: Writer, i: Instr) -> None:
        dtypes_equal(w, i)
        k = w.number[id(i)]
        w.line(f"v{i.outs[0]} = f{k}(ctx, {w.use(i.ins[0])})")

    def backward(w: Writer, i: Instr) -> None:
        w.give(i.ins[0], f"segment_spread(ctx, {w.grad(i.outs[0])}, {mean})")

    return Rule(forward, backward)


RULES["segsum"] = _segment(False)
RULES["segmean"] = _segment(True)


def _rep(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = f{w.number[id(i)]}(ctx, {w.use(i.ins[0])})")


def _rep_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"segment_total(ctx, {w.grad(i.outs[0])})")


RULES["rep"] = Rule(_rep, _rep_back)


def _spread(w: Writer, i: Instr) -> None:
    inner = w.inner(i.outs[0])
    w.line(f"v{i.outs[0]} = {w.name(i.ins[0])}.expand({w.batch(i.outs[0])}{''.join(f', {s}' for s in inner)})")


def _spread_back(w: Writer, i: Instr) -> None:
    k = i.ins[0]
    w.bwd.append(f"if S[{~k}].requires_grad: acc.add(S[{~k}], {w.grad(i.outs[0])}.sum(0))")


RULES["spread"] = Rule(_spread, _spread_back)
