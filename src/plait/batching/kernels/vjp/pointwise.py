"""Derivative rules of elementwise ops."""

from __future__ import annotations

from typing import Any

from plait.batching._codegen import Unsupported, Writer
from plait.batching._program import Instr
from plait.batching.kernels.vjp._rule import Lines, Rule, arg, dtypes_equal, same_shape, send

RULES: dict[str, Rule] = {}


# ---------------------------------------------------------------------- two operands
def _fused_add(w: Writer, i: Instr, a: Any, b: Any) -> bool:
    """add(x, linear(y)) in one call; add(mul, mul) as addcmul."""
    for x, y in ((a, b), (b, a)):
        if not isinstance(y, int) or y < 0 or not w.single(y) or not same_shape(w, y, i.outs[0]):
            continue
        if not isinstance(x, int) or x < 0 or not same_shape(w, x, i.outs[0]) or x == y:
            continue
        m = w.maker.get(y)
        if m is None or id(m) in w.done:
            continue
        delayed = w.delayed.get(y)
        if delayed is None:
            continue
        o = i.outs[0]
        made = x in w.maker and x not in w.gates and w.maker[x].op in ("linear", "matmul_w", "add", "mul")
        mine = w.single(x) and (made or x in w.p.own) and x not in w.delayed
        name = "addmm" if delayed[0] == "mm" else "torch.addcmul"
        call = f"{delayed[1]}, {delayed[2]}"
        if o not in w.out_of and mine:
            w.overwritten.add(x)
            w.line(f"v{o} = v{x}.{name.removeprefix('torch.')}_({call})")
        else:
            w.set(o, name, f"{w.flush(x)}, {call}")
        del w.delayed[y]
        return True
    return False


def _add(w: Writer, i: Instr) -> None:
    a, b = _two(w, i)
    if not _fused_add(w, i, a, b):
        w.set(i.outs[0], "add", f"{w.use(a)}, {w.use(b)}")


def _two(w: Writer, i: Instr) -> list[Any]:
    dtypes_equal(w, i)
    args = w.args_of(i)
    if len(args) != 2:
        raise Unsupported
    return args


def _add_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    for k in _two(w, i):
        send(w, k, i.outs[0], str(g))


def _sub_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    a, b = _two(w, i)
    send(w, a, i.outs[0], str(g))
    send(w, b, i.outs[0], f"neg({g})", f"torch.neg({g}, out={{}})")


def _mul(w: Writer, i: Instr) -> None:
    a, b = _two(w, i)
    o = i.outs[0]
    users = w.users.get(o, [])
    if (
        w.single(o)
        and users[0].op == "add"
        and isinstance(a, int)
        and isinstance(b, int)
        and a >= 0
        and b >= 0
        and w.later(users[0], o)
    ):
        w.delayed[o] = ("mul", w.use(a), w.use(b))
        return
    w.set(o, "mul", f"{w.use(a)}, {w.use(b)}")


def _mul_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    a, b = _two(w, i)
    send(w, a, i.outs[0], f"mul({g}, {arg(w, b)})", f"mul({g}, {arg(w, b)}, out={{}})")
    send(w, b, i.outs[0], f"mul({g}, {arg(w, a)})", f"mul({g}, {arg(w, a)}, out={{}})")


def _div_back(w: Writer, i: Instr) -> None:
    g = w.grad(i.outs[0])
    a, b = _two(w, i)
    o = i.outs[0]
    send(w, a, o, f"div({g}, {arg(w, b)})")
    send(w, b, o, f"neg(div(mul({g}, v{o}), {arg(w, b)}))")


def _plain2(func: str) -> Lines:
    def forward(w: Writer, i: Instr) -> None:
        a, b = _two(w, i)
        w.set(i.outs[0], func, f"{w.use(a)}, {w.use(b)}")

    return forward


RULES["add"] = Rule(_add, _add_back)
RULES["sub"] = Rule(_plain2("sub"), _sub_back)
RULES["mul"] = Rule(_mul, _mul_back)
RULES["div"] = Rule(_plain2("div"), _div_back)


# ---------------------------------------------------------------------- one operand
def unary(name: str, back: str, into: str | None = None) -> None:
    """`back` in terms of {g}, {x} (the operand) and {y} (the result)."""

    def forward(w: Writer, i: Instr) -> None:
        if len(i.ins) != 1 or i.consts[-1] is not None:
            raise Unsupported
        o, x = i.outs[0], w.use(i.ins[0])
        if name == "relu" and o in w.out_of:  # which has no form that writes into given memory
            w.set(o, "torch.clamp_min", f"{x}, 0")
        else:
            w.set(o, f"torch.{name}", x)

    def backward(w: Writer, i: Instr) -> None:
        names = {"g": w.grad(i.outs[0]), "x": w.name(i.ins[0]), "y": f"v{i.outs[0]}"}
        w.give(i.ins[0], back.format(**names), into.format(**names, out="{}") if into else None)

    RULES[name] = Rule(forward, backward)


unary("tanh", "tanh_backward({g}, {y})", "tanh_back({g}, {y}, grad_input={out})")
unary("sigmoid", "sigmoid_backward({g}, {y})", "sigmoid_back({g}, {y}, grad_input={out})")
unary("relu", "threshold_backward({g}, {y}, 0)", "relu_back({g}, {y}, 0, grad_input={out})")
unary("exp", "mul({g}, {y})", "mul({g}, {y}, out={out})")
unary("log", "div({g}, {x})", "div({g}, {x}, out={out})")
unary("neg", "neg({g})")
unary("square", "mul({g}, {x}) * 2")
unary("sin", "mul({g}, torch.cos({x}))")
unary("cos", "neg(mul({g}, torch.sin({x})))")


def _same(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}")


def _pass(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], str(w.grad(i.outs[0])))


RULES["alias"] = RULES["clone"] = Rule(_same, _pass)
