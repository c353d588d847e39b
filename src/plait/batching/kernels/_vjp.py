"""Hand-made forward and backward lines, one rule an op; an op without a row here keeps to autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.batching._codegen import Writer
    from plait.batching._program import Instr

Lines = Callable[["Writer", "Instr"], None]


class Rule:
    """How one op is written."""

    __slots__ = ("backward", "forward")

    def __init__(self, forward: Lines, backward: Lines) -> None:
        self.forward = forward
        self.backward = backward


VJP: dict[str, Rule] = {}


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
    from plait.batching._codegen import Unsupported

    d = w.p.vals[i.outs[0]].dtype
    if any(k >= 0 and w.p.vals[k].dtype != d for k in i.ins):
        raise Unsupported


# ---------------------------------------------------------------------- elementwise, two operands
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
        mine = (
            w.single(x)
            and x in w.maker
            and x not in w.gates
            and w.maker[x].op in ("linear", "matmul_w", "add", "mul")
            and x not in w.delayed
        )
        if delayed[0] == "mm":
            call = f"{delayed[1]}, {delayed[2]}"
            if o in w.out_of:
                w.line(f"v{o} = addmm({w.flush(x)}, {call}, out=O[{w.out_of[o]}])")
            elif mine:
                w.line(f"v{o} = v{x}.addmm_({call})")
            else:
                w.line(f"v{o} = addmm({w.flush(x)}, {call})")
        else:
            call = f"{delayed[1]}, {delayed[2]}"
            if o in w.out_of:
                w.line(f"v{o} = torch.addcmul({w.flush(x)}, {call}, out=O[{w.out_of[o]}])")
            elif mine:
                w.line(f"v{o} = v{x}.addcmul_({call})")
            else:
                w.line(f"v{o} = torch.addcmul({w.flush(x)}, {call})")
        del w.delayed[y]
        return True
    return False


def _add(w: Writer, i: Instr) -> None:
    a, b = _two(w, i)
    if not _fused_add(w, i, a, b):
        w.set(i.outs[0], "add", f"{w.use(a)}, {w.use(b)}")


def _two(w: Writer, i: Instr) -> list[Any]:
    from plait.batching._codegen import Unsupported

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


VJP["add"] = Rule(_add, _add_back)
VJP["sub"] = Rule(_plain2("sub"), _sub_back)
VJP["mul"] = Rule(_mul, _mul_back)
VJP["div"] = Rule(_plain2("div"), _div_back)


# ---------------------------------------------------------------------- elementwise, one operand
def unary(name: str, back: str, into: str | None = None) -> None:
    """`back` in terms of {g}, {x} (the operand) and {y} (the result)."""

    def forward(w: Writer, i: Instr) -> None:
        from plait.batching._codegen import Unsupported

        if len(i.ins) != 1 or i.consts[-1] is not None:
            raise Unsupported
        w.set(i.outs[0], f"torch.{name}", w.use(i.ins[0]), out=name != "relu")

    def backward(w: Writer, i: Instr) -> None:
        names = {"g": w.grad(i.outs[0]), "x": w.name(i.ins[0]), "y": f"v{i.outs[0]}"}
        w.give(i.ins[0], back.format(**names), into.format(**names, out="{}") if into else None)

    VJP[name] = Rule(forward, backward)


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


VJP["alias"] = VJP["clone"] = Rule(_same, _pass)


# ---------------------------------------------------------------------- products with weights
def _linear(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

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
        w.delayed[o] = ("mm", w.use(x), f"W[{~k}].t()")
    elif bias is None:
        w.set(o, "mm", f"{w.use(x)}, W[{~k}].t()")
    else:
        w.set(o, "addmm", f"{w.name(bias)}, {w.use(x)}, W[{~k}].t()")


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


VJP["linear"] = Rule(_linear, _linear_back)


def _matmul_w(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

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
    w.give(x, f"mm({g}, W[{~k}].t())")


VJP["matmul_w"] = Rule(_matmul_w, _matmul_w_back)


# ---------------------------------------------------------------------- shapes
def _shape(w: Writer, k: int) -> str:
    inner = w.inner(k)
    return f"({w.batch(k)}, {', '.join(map(str, inner))}{',' if inner else ''})"


def _reshape(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.reshape{_shape(w, i.outs[0])}")


def _reshape_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"{w.grad(i.outs[0])}.reshape{_shape(w, i.ins[0])}")


VJP["reshape"] = Rule(_reshape, _reshape_back)


def _permute(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.permute({i.consts[0]})")


def _permute_back(w: Writer, i: Instr) -> None:
    perm = i.consts[0]
    inverse = tuple(perm.index(k) for k in range(len(perm)))
    w.give(i.ins[0], f"{w.grad(i.outs[0])}.permute({inverse})")


VJP["permute"] = Rule(_permute, _permute_back)


def _narrow(w: Writer, i: Instr) -> None:
    d, s, k = i.consts
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.narrow({d}, {s}, {k})")


def _narrow_back(w: Writer, i: Instr) -> None:
    d, s, k = i.consts
    w.give(i.ins[0], f"cut({_shape(w, i.ins[0])}, {w.grad(i.outs[0])}, {d}, {s}, {k})")


VJP["narrow"] = Rule(_narrow, _narrow_back)


def _select(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = {w.use(i.ins[0])}.select({i.consts[0]}, {i.consts[1]})")


def _select_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"put({_shape(w, i.ins[0])}, {w.grad(i.outs[0])}, {i.consts[0]}, {i.consts[1]})")


VJP["select"] = Rule(_select, _select_back)


def _cat(w: Writer, i: Instr) -> None:
    w.set(i.outs[0], "cat", f"[{', '.join(w.use(k) for k in i.ins)}], {i.consts[0]}")


def _cat_back(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

    if any(k < 0 for k in i.ins):
        raise Unsupported
    dtypes_equal(w, i)
    d = i.consts[0]
    sizes = [w.inner(k)[d - 1] for k in i.ins]
    names = [w.fresh() for _ in i.ins]
    w.bwd.append(f"{', '.join(names)}, = {w.grad(i.outs[0])}.split({sizes}, {d})")
    for k, t in zip(i.ins, names):
        w.give(k, t)


VJP["cat"] = Rule(_cat, _cat_back)


def _stack(w: Writer, i: Instr) -> None:
    w.set(i.outs[0], "torch.stack", f"[{', '.join(w.use(k) for k in i.ins)}], {i.consts[0]}")


def _stack_back(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

    if any(k < 0 for k in i.ins):
        raise Unsupported
    dtypes_equal(w, i)
    names = [w.fresh() for _ in i.ins]
    w.bwd.append(f"{', '.join(names)}, = {w.grad(i.outs[0])}.unbind({i.consts[0]})")
    for k, t in zip(i.ins, names):
        w.give(k, t)


VJP["stack"] = Rule(_stack, _stack_back)


# ---------------------------------------------------------------------- sums
def _reduction(mean: bool) -> Rule:
    name = "mean" if mean else "sum"

    def check(w: Writer, i: Instr) -> tuple[tuple[int, ...], bool]:
        from plait.batching._codegen import Unsupported

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
        w.give(x, f"{g}.expand{_shape(w, x)}")

    return Rule(forward, backward)


VJP["sum"] = _reduction(False)
VJP["mean"] = _reduction(True)


def _segment(mean: bool) -> Rule:
    def forward(w: Writer, i: Instr) -> None:
        dtypes_equal(w, i)
        k = w.number[id(i)]
        w.line(f"v{i.outs[0]} = f{k}(ctx, {w.use(i.ins[0])})")

    def backward(w: Writer, i: Instr) -> None:
        w.give(i.ins[0], f"segment_spread(ctx, {w.grad(i.outs[0])}, {mean})")

    return Rule(forward, backward)


VJP["segsum"] = _segment(False)
VJP["segmean"] = _segment(True)


def _rep(w: Writer, i: Instr) -> None:
    w.line(f"v{i.outs[0]} = f{w.number[id(i)]}(ctx, {w.use(i.ins[0])})")


def _rep_back(w: Writer, i: Instr) -> None:
    w.give(i.ins[0], f"segment_total(ctx, {w.grad(i.outs[0])})")


VJP["rep"] = Rule(_rep, _rep_back)


def _spread(w: Writer, i: Instr) -> None:
    inner = w.inner(i.outs[0])
    w.line(f"v{i.outs[0]} = {w.name(i.ins[0])}.expand({w.batch(i.outs[0])}{''.join(f', {s}' for s in inner)})")


def _spread_back(w: Writer, i: Instr) -> None:
    k = i.ins[0]
    w.bwd.append(f"if S[{~k}].requires_grad: acc.add(S[{~k}], {w.grad(i.outs[0])}.sum(0))")


VJP["spread"] = Rule(_spread, _spread_back)


# ---------------------------------------------------------------------- heads
def _softmax(name: str) -> Rule:
    def forward(w: Writer, i: Instr) -> None:
        from plait.batching._codegen import Unsupported

        d, more, rest = i.consts
        if rest or not isinstance(d, int) or more != (tuple, ()):
            raise Unsupported
        dtypes_equal(w, i)
        w.set(i.outs[0], f"torch.{name}", f"{w.use(i.ins[0])}, {d}", out=False)

    def backward(w: Writer, i: Instr) -> None:
        o = i.outs[0]
        w.give(i.ins[0], f"{name}_back({w.grad(o)}, v{o}, {i.consts[0]}, v{o}.dtype)")

    return Rule(forward, backward)


VJP["softmax"] = _softmax("softmax")
VJP["log_softmax"] = _softmax("log_softmax")


def _cross(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

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


VJP["cross_entropy"] = Rule(_cross, _cross_back)


def _embedding(w: Writer, i: Instr) -> None:
    from plait.batching._codegen import Unsupported

    ids, k = i.ins
    if ids < 0 or k >= 0:
        raise Unsupported
    w.line(f"v{i.outs[0]} = torch.embedding({w.name(k)}, {w.use(ids)})")


def _embedding_back(w: Writer, i: Instr) -> None:
    ids, k = i.ins
    w.bwd.append(f"acc.lookup(S[{~k}], {w.grad(i.outs[0])}, {w.name(ids)}, {i.consts[0]})")


VJP["embedding"] = Rule(_embedding, _embedding_back)
