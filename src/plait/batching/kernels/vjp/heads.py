"""Derivative rules of softmax, losses and embeddings."""

from __future__ import annotations

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr
from plait.batching.kernels.vjp._rule import Rule, dtypes_equal

RULES: dict[str, Rule] = {}


def _softmax(name: str) -> Rule:
    def forward(w: Writer, i: Instr) -> None:
        d, more, rest = i.consts
        if rest or not isinstance(d, int) or more != (tuple, ()):
            raise Unsupported
        dtypes_equal(w, i)
        w.set(i.outs[0], f"torch.{name}", f"{w.use(i.ins[0])}, {d}", out=False)

    def backward(w: Writer, i: Instr) -> None:
        o = i.outs[0]
        w.give(i.ins[0], f"{name}_back({w.grad(o)}, v{o}, {i.consts[0]}, v{o}.dtype)")

    return Rule(forward, backward)


RULES["softmax"] = _softmax("softmax")
RULES["log_softmax"] = _softmax("log_softmax")


def _cross(w: Writer, i: Instr) -> None:
    skip, smooth = i.consts
    if smooth or any(k < 0 for k in i.ins):
        raise Unsupported
    o = i.outs[0]
    w.saved_extra.append(f"x{o}")
    a, y = i.ins
    w.line(f"v{o}, x{o} = cross_entropy({w.use(a)}, {w.use(y)}, {skip})")


def _cross_back(w: Writer, i: Instr) -> None:
    o = i.outs[0]
    w.give(i.ins[0], f"cross_entropy_back({w.grad(o)}, x{o}, v{i.ins[1]}, {i.consts[0]})")


RULES["cross_entropy"] = Rule(_cross, _cross_back)


def _embedding(w: Writer, i: Instr) -> None:
    ids, k = i.ins
    if ids < 0 or k >= 0:
        raise Unsupported
    w.line(f"v{i.outs[0]} = torch.embedding({w.name(k)}, {w.use(ids)})")


def _embedding_back(w: Writer, i: Instr) -> None:
    ids, k = i.ins
    w.bwd.append(f"acc.lookup(S[{~k}], {w.grad(i.outs[0])}, {w.name(ids)}, {i.consts[0]})")


RULES["embedding"] = Rule(_embedding, _embedding_back)
