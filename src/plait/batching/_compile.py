"""Turns a program into two Python functions of plain torch calls: forward, and backward with hand-made derivatives.

No autograd runs inside of them; results go straight to the rows that hold them; gradients of weights are handed to an
accumulator as pairs (gradient of the product, input of the product), for one product over all groups at the end.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plait.batching._codegen import ENV, Unsupported, Writer
from plait.batching._program import Instr, Program
from plait.batching.kernels._vjp import VJP
from plait.batching.kernels.rnn import Config, RNNKernel

_FUNCTIONS: dict[str, Any] = {}


class Compiled:
    """`forward(ctx, args, shared, outs) -> saved` and `backward(ctx, saved, gouts, shared, acc) -> gradients of args`."""

    __slots__ = ("backward", "forward", "source")

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any], source: str) -> None:
        self.forward = forward
        self.backward = backward
        self.source = source


def compile_program(p: Program) -> Compiled | RNNKernel | None:
    """The compiled form, or None where an instruction has no hand-made derivative."""
    if len(p.code) == 1 and p.code[0].op == "rnn":
        key, has_state = p.code[0].consts
        return RNNKernel(Config(*key), has_state)
    if not p.code or any(i.op not in VJP and any(p.vals[o].tracks for o in i.outs) for i in p.code):
        return None
    if len(set(p.outs)) != len(p.outs) or any(o in p.ins for o in p.outs):
        return None
    try:
        source = Writer(p, VJP).source()
    except Unsupported:
        return None
    fns = _FUNCTIONS.get(source)
    if fns is None or any(i.op not in VJP for i in p.code):
        env = dict(ENV)
        env.update({f"f{k}": _plain(i) for k, i in enumerate(p.code)})
        exec(compile(source, f"<plait program {len(_FUNCTIONS)}>", "exec"), env)
        fns = env["forward"], env["backward"]
        if all(i.op in VJP for i in p.code) and len(_FUNCTIONS) < 4096:
            _FUNCTIONS[source] = fns
    return Compiled(*fns, source)


def _plain(i: Instr) -> Callable[..., Any]:
    return i.fn
