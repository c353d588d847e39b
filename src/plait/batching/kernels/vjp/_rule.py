"""What a derivative rule is, and what most of them need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr

Lines = Callable[[Writer, Instr], None]


class Rule:
    """How one op is written."""

    __slots__ = ("backward", "forward")

    def __init__(self, forward: Lines, backward: Lines) -> None:
        self.forward = forward
        self.backward = backward


def arg(w: Writer, a: Any) -> str:
    return a if isinstance(a, str) else w.name(a)


def reduce_to(w: Writer, k: int, out: int, expr: str) -> str:
    """`expr` (in the shape of `out`) summed to the shape of operand `k` where that was broadcast."""
    if k < 0:
        return f"({expr}).sum_to_size(W[{~k}].shape)"
    a, b = w.inner(k), w.inner(out)
    dims = [j + 1 for j, (x, y) in enumerate(zip(a, b)) if x != y]
    return f"({expr}).sum({dims}, keepdim=True)" if dims else expr


def same_shape(w: Writer, k: int, out: int) -> bool:
    return k >= 0 and w.inner(k) == w.inner(out) and w.p.vals[k].ragged == w.p.vals[out].ragged


def wants(w: Writer, k: Any) -> bool:
    return isinstance(k, int) and (k < 0 or w.tracks(k))


def send(w: Writer, k: Any, out: int, expr: str, into: str | None = None) -> None:
    """The gradient of operand `k` of an elementwise op."""
    if not wants(w, k):
        return
    if k < 0:
        w.bwd.append(f"if S[{~k}].requires_grad: acc.add(S[{~k}], {reduce_to(w, k, out, expr)})")
    elif same_shape(w, k, out):
        w.give(k, expr, into)
    else:
        w.give(k, reduce_to(w, k, out, expr))


def dtypes_equal(w: Writer, i: Instr) -> None:
    d = w.p.vals[i.outs[0]].dtype
    if any(k >= 0 and w.p.vals[k].dtype != d for k in i.ins):
        raise Unsupported


def shape_of(w: Writer, k: int) -> str:
    inner = w.inner(k)
    return f"({w.batch(k)}, {', '.join(map(str, inner))}{',' if inner else ''})"
