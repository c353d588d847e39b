"""What a repeated call computes from one input alone, done for all rows of that input in one call.

A cell `tanh(linear(x_t, U) + linear(h, W))` meets every row of x, one per round, in groups of a few rows. The product
with U does not wait for any h: once enough rows have come by, it is computed for all that were loaded from outside, and
the groups take their rows of the result. The gradient of U is then one product as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from plait.batching._arena import Arena, Column, Late
from plait.batching._meta import Space
from plait.batching._program import Instr, Program, Rows
from plait.batching._signature import Sig

if TYPE_CHECKING:
    from plait.batching._execute import Executor

ENOUGH = 3  # hoisted once a third of the rows has been used: what may be in vain stays a small multiple of what was not


@dataclass(slots=True, eq=False)
class Hoist:
    """A program in two: `before` takes input number `column`, `rest` the other inputs and what `before` gives."""

    column: int
    before: Program
    rest: Program
    shared: tuple[int, ...]  # the weights that `before` uses


@dataclass(slots=True, eq=False)
class Product:
    """The results of `before` for the first `rows` rows of an arena, under the same numbers."""

    rows: int
    arenas: list[Any]


@dataclass(slots=True, eq=False)
class Hoisted:
    """A signature whose first part is done: groups run as `rest`."""

    column: int
    rows: int
    rest: Sig
    arenas: list[Any]

    def columns(self, given: list[Column]) -> list[Column]:
        """Where the rows for `rest` are, from where those of the whole call are."""
        _, start, count, index = given[self.column]
        return [
            *given[: self.column],
            *given[self.column + 1 :],
            *[(arena, start, count, index) for arena in self.arenas],
        ]


def hoist_of(p: Program) -> Hoist | None:
    """How to split a program, if there is a product that depends on one input alone and something that does not."""
    if p.ragged or p.compiled is None:
        return None
    for column, x in enumerate(p.ins):
        own = {x}
        before: list[Instr] = []
        for i in p.code:
            if (
                i.ins
                and all(k < 0 or k in own for k in i.ins)
                and any(k >= 0 for k in i.ins)
                and not (i.rows or i.opaque)
            ):
                before.append(i)
                own.update(i.outs)
        done = {id(i) for i in before}
        rest = [i for i in p.code if id(i) not in done]
        if not rest or not any(i.op == "linear" for i in before):
            continue
        needed = {k for i in rest for k in i.ins}
        cut = [o for i in before for o in i.outs if o in needed]
        if x in needed or not 1 <= len(cut) <= 2 or any(o in own for o in p.outs):
            continue
        found = _split(p, column, before, rest, cut)
        if found is not None:
            return found
    return None


def _split(p: Program, column: int, before: list[Instr], rest: list[Instr], cut: list[int]) -> Hoist | None:
    from plait.batching._compile import compile_program

    before, rest, cut = _with_biases(p, before, rest, cut)
    others = tuple([v for k, v in enumerate(p.ins) if k != column])
    shared = tuple(sorted({~k for i in before for k in i.ins if k < 0}))
    parts = []
    for ins, outs, code in (((p.ins[column],), tuple(cut), before), ((*others, *cut), p.outs, rest)):
        part = Program(p.vals, ins, outs, code, p.n_shared)
        part.key = (p.key, outs)
        part.own = frozenset(cut) & frozenset(ins)
        part.compiled = compile_program(part)
        if part.compiled is None:
            return None
        parts.append(part)
    return Hoist(column, parts[0], parts[1], shared)


def _with_biases(
    p: Program, before: list[Instr], rest: list[Instr], cut: list[int]
) -> tuple[list[Instr], list[Instr], list[int]]:
    """`cut + linear(h, W, b)` becomes `(cut + b) + linear(h, W)`, with the first sum in `before`."""
    users: dict[int, list[Instr]] = {}
    for i in rest:
        for k in i.ins:
            users.setdefault(k, []).append(i)
    makers = {o: i for i in rest for o in i.outs}
    before, rest, cut = list(before), list(rest), list(cut)
    for n, c in enumerate(cut):
        add = users[c][0]
        if len(users[c]) != 1 or add.op != "add" or add.consts != (None,) or len(add.ins) != 2 or c in p.outs:
            continue
        y = add.ins[0] if add.ins[1] == c else add.ins[1]
        product = makers.get(y)
        if product is None or product.op != "linear" or len(product.ins) != 3 or len(users[y]) != 1 or y in p.outs:
            continue
        if p.vals[y].inner != p.vals[c].inner:
            continue
        total = len(p.vals)
        v = p.vals[c]
        p.vals.append(type(v)(v.shape, v.dtype, v.ragged, v.tracks or p.vals[y].tracks))
        before.append(Instr("add", (c, product.ins[2]), add.consts, (total,), torch.add))
        rest[rest.index(product)] = Instr("linear", product.ins[:2], product.consts, product.outs, product.fn)
        rest[rest.index(add)] = Instr(
            "add", tuple([total if k == c else k for k in add.ins]), add.consts, add.outs, add.fn
        )
        cut[n] = total
    return before, rest, cut


def hoist(ex: Executor, sig: Sig) -> Hoisted | None:
    """The signature with its first part done for all rows, if that is worth it by now."""
    h: Hoist = sig.hoist
    arena = sig.ins[h.column]
    early = ENOUGH * sig.seen < arena.given or not arena.given or sig.autocast is not False
    if early and not ex.products:
        return None
    key = (h.before.key, tuple([id(sig.shared[k]) for k in h.shared]), arena)
    found = ex.products.get(key)
    if found is None:
        if early:
            return None
        found = ex.products[key] = _run(ex, sig, h, arena)
    res = sig.hoisted = Hoisted(h.column, found.rows, _rest(sig, h, found), found.arenas)
    return res


def _run(ex: Executor, sig: Sig, h: Hoist, arena: Any) -> Product:
    from plait.batching._execute import Step

    n = arena.given
    first = Sig(-1, sig.name, h.before, sig.shared, "hoist")
    first.in_metas = [sig.in_metas[h.column]]
    vals = [h.before.vals[v] for v in h.before.outs]
    first.out_spaces = [Space(v.inner, v.dtype, arena.space.device) for v in vals]
    first.out_rows = [1] * len(vals)
    first.out_tracks = [v.tracks for v in vals]
    arenas = [Arena(s, -1, n) for s in first.out_spaces]
    for a in arenas:
        ex.arenas[a.space] = a
    first.ready([arena], arenas)
    rows = Rows(n, None, arena.space.device)
    saved = ex._compute(first, rows, [arena.buf[:n].reshape(n, *first.in_metas[0][0])], [a.buf for a in arenas])
    if saved is not None:
        if len(arenas) == 1 and not h.before.vals[h.before.ins[0]].tracks:  # nobody wants the gradient of the rows
            back = h.before.compiled.backward_for((True,))
            arenas[0].late = Late(back, saved, first.shared, first.weights or [])
        ex.tape.append(Step(first, rows, [(arena, 0, n, None)], [(a, 0, n) for a in arenas], saved))
    return Product(n, arenas)


def _rest(sig: Sig, h: Hoist, found: Product) -> Sig:
    rest = Sig(sig.index, sig.name, h.rest, sig.shared)
    rest.in_metas = [
        *sig.in_metas[: h.column],
        *sig.in_metas[h.column + 1 :],
        *[(a.space.inner, False, a.space, 1) for a in found.arenas],
    ]
    rest.out_spaces, rest.out_rows, rest.out_tracks = sig.out_spaces, sig.out_rows, sig.out_tracks
    ins = [*sig.ins[: h.column], *sig.ins[h.column + 1 :], *found.arenas]
    rest.ready(ins, sig.outs)
    if h.rest.compiled.overwrites:
        rest.own = tuple(range(len(ins) - len(found.arenas), len(ins)))
    return rest
