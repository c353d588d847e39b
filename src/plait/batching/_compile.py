"""Turns a program into two Python functions of plain torch calls: forward, and backward with hand-made derivatives.

No autograd runs inside of them; results go straight to the rows that hold them; gradients of weights are handed to an
accumulator as pairs (gradient of the product, input of the product), for one product over all groups at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from plait.batching._codegen import Unsupported, Writer
from plait.batching._codegen_env import ENV
from plait.batching._program import Program
from plait.batching.kernels.rnn import Config, RNNKernel
from plait.batching.kernels.vjp import VJP

_CODE: dict[str, CodeType] = {}


class Compiled:
    """`forward(ctx, args, shared, outs) -> saved` and `backward(ctx, saved, gouts, shared, acc) -> gradients of args`."""  # noqa: E501

    def __init__(self, program: Program, source: str, overwrites: bool) -> None:
        self.overwrites = overwrites  # some of the inputs that the program owns
        self.program = program
        self.source = source
        env = _functions(program, source)
        self.forward: Callable[..., Any] = env["forward"]
        self.backward: Callable[..., Any] = env["backward"]
        self._for: dict[tuple[bool, ...], Callable[..., Any]] = {}

    def backward_for(self, given: tuple[bool, ...]) -> Callable[..., Any]:
        """The backward for those results that have a gradient: the others' derivatives are not even looked at."""
        found = self._for.get(given)
        if found is None:
            tracked = [self.program.vals[v].tracks for v in self.program.outs]
            if all(g or not t for g, t in zip(given, tracked)):
                found = self.backward
            else:
                source = Writer(self.program, VJP, given).source(self.source)
                found = _functions(self.program, source)["backward"]
            self._for[given] = found
        return found


def _functions(p: Program, source: str) -> dict[str, Any]:
    code = _CODE.get(source)
    if code is None:
        code = compile(source, f"<plait program {len(_CODE)}>", "exec")
        if len(_CODE) < 4096:
            _CODE[source] = code
    env = dict(ENV)  # `f0` and so on differ between programs of one source
    env.update({f"f{k}": i.fn for k, i in enumerate(p.code)})
    exec(code, env)
    return env


def compile_program(p: Program) -> Compiled | RNNKernel | None:
    """The compiled form, or None where an instruction has no hand-made derivative."""
    if len(p.code) == 1 and p.code[0].op == "rnn":
        key, has_state = p.code[0].consts
        return RNNKernel(Config(*key), has_state, p.vals[p.ins[0]].tracks)
    if not p.code or any(i.op not in VJP and any(p.vals[o].tracks for o in i.outs) for i in p.code):
        return None
    if len(set(p.outs)) != len(p.outs) or any(o in p.ins for o in p.outs):
        return None
    writer = Writer(p, VJP)
    try:
        source = writer.source()
    except Unsupported:
        return None
    return Compiled(p, source, bool(writer.overwritten & p.own))
