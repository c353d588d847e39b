"""Derivative rules of ops that move numbers."""

from __future__ import annotations

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr
from plait.batching.kernels.vjp._rule import Rule, dtypes_equal, shape_of

RULES: dict[str, Rule] = {}


def _reshape(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.reshape{shape_of(w, i.outs[0])}")


def _reshape_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"{w.grad(i.outs[0])}.reshape{shape_of(w, i.ins[0])}")


RULES["reshape"] = Rule(_reshape, _reshape_back)


def _permute(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.permute({i.consts[0]})")


def _permute_back(w: Writer, i: Instr) -> None:
    perm = i.consts[0]
    inverse = tuple(perm.index(k) for k in range(len(perm)))
    w.give(i.ins[0], f"{w.grad(i.outs[0])}.permute({inverse})")


RULES["permute"] = Rule(_permute, _permute_back)


def _narrow(w: Writer, i: Instr) -> None:
    d, s, k = i.consts
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.narrow({d}, {s}, {k})")


def _narrow_back(w: Writer, i: Instr) -> None:
    d, s, k = i.consts
    w.give(i.ins[0], f"cut({shape_of(w, i.ins[0])}, {w.grad(i.outs[0])}, {d}, {s}, {k})")


RULES["narrow"] = Rule(_narrow, _narrow_back)


def _select(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.select({i.consts[0]}, {i.consts[1]})")


def _select_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"put({shape_of(w, i.ins[0])}, {w.grad(i.outs[0])}, {i.consts[0]}, {i.consts[1]})")


RULES["select"] = Rule(_select, _select_back)


def _cat(w: Writer, i: Instr) -> None:
    w.set(i.outs[0], "cat", f"[{', '.join(w.use(k) for k in i.ins)}], {i.consts[0]}")


def _cat_back(w: Writer, i: Instr) -> None:
    if any(k < 0 for k in i.ins):
        raise Unsupported
    dtypes_equal(w, i)
    d = i.consts[0]
    sizes = [w.inner(k)[d - 1] for k in i.ins]
    names = [w.fresh() for _ in i.ins]
    w.bwd.append(f"{', '.join(names)}, = {w.grad(i.outs[0])}.split({sizes}, {d})")
    for k, t in zip(i.ins, names):
        w.give(k, t)


RULES["cat"] = Rule(_cat, _cat_back)


def _stack(w: Writer, i: Instr) -> None:
    w.set(i.outs[0], "torch.stack", f"[{', '.join(w.use(k) for k in i.ins)}], {i.consts[0]}")


def _stack_back(w: Writer, i: Instr) -> None:
    if any(k < 0 for k in i.ins):
        raise Unsupported
    dtypes_equal(w, i)
    names = [w.fresh() for _ in i.ins]
    w.bwd.append(f"{', '.join(names)}, = {w.grad(i.outs[0])}.unbind({i.consts[0]})")
    for k, t in zip(i.ins, names):
        w.give(k, t)


RULES["stack"] = Rule(_stack, _stack_back)
