"""Derivative rules of products with weights."""

from __future__ import annotations

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr
from plait.batching.kernels.vjp._rule import Rule, dtypes_equal

RULES: dict[str, Rule] = {}


def _linear(w: Writer, i: Instr) -> None:
    dtypes_equal(w, i)
    x, k = i.ins[0], i.ins[1]
    o = i.outs[0]
    if x < 0 or k >= 0:
        raise Unsupported
    bias = i.ins[2] if len(i.ins) > 2 else None
    if bias is not None and bias >= 0:
        raise Unsupported
    if len(w.inner(x)) != 1:
        w.set(
            o,
            "linear",
            f"{w.use(x)}, {w.name(k)}" + (f", {w.name(bias)}" if bias is not None else ""),
            out=False,
        )
        return
    users = w.users.get(o, [])
    if bias is None and w.single(o) and users[0].op == "add" and w.later(users[0], o):
        w.delayed[o] = ("mm", w.use(x), f"{w.transposed(k)}")
    elif bias is None:
        w.set(o, "mm", f"{w.use(x)}, {w.transposed(k)}")
    else:
        w.set(o, "addmm", f"{w.name(bias)}, {w.use(x)}, {w.transposed(k)}")


def _linear_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    x, k = i.ins[0], i.ins[1]
    b = i.ins[2] if len(i.ins) > 2 else None
    flat = len(w.inner(x)) == 1
    if flat:
        w.bwd.append(f"acc.linear(S[{~k}], {f'S[{~b}]' if b is not None else None}, {g}, {w.name(x)})")
    else:
        w.bwd.append(
            f"acc.linear(S[{~k}], {f'S[{~b}]' if b is not None else None}, {g}.flatten(0, -2), {w.name(x)}.flatten(0, -2))"  # noqa: E501
        )
    w.give(
        x,
        f"mm({g}, W[{~k}])" if flat else f"matmul({g}, W[{~k}])",
        f"mm({g}, W[{~k}], out={{}})" if flat else None,
    )


RULES["linear"] = Rule(_linear, _linear_back)


def _matmul_w(w: Writer, i: Instr) -> None:
    dtypes_equal(w, i)
    x, k = i.ins
    o = i.outs[0]
    if x < 0 or k >= 0 or len(w.inner(x)) != 1 or len(w.inner(o)) != 1:
        raise Unsupported
    users = w.users.get(o, [])
    if w.single(o) and users[0].op == "add" and w.later(users[0], o):
        w.delayed[o] = ("mm", w.use(x), f"W[{~k}]")
    else:
        w.set(o, "mm", f"{w.use(x)}, W[{~k}]")


def _matmul_w_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    x, k = i.ins
    w.bwd.append(f"acc.matmul(S[{~k}], {g}, {w.name(x)})")
    w.give(x, f"mm({g}, {w.transposed(k)})")


RULES["matmul_w"] = Rule(_matmul_w, _matmul_w_back)
