"""Runs one-example code on symbols and writes down the batched instructions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching import _current
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._meta import Meta, meta_of
from plait.batching._names import function_of
from plait.batching._program import Instr, NoRule, Program, Val
from plait.batching._shared import has_lazy, shared_source, tensors_of, unchanged
from plait.batching._writes import fresh
from plait.batching.kernels._table import lower


class Abort(Exception):
    """This code cannot be traced in this form; the caller has another form to try."""


class RaggedDim(int):
    """The length of a ragged dimension inside a trace: may be passed on, must not decide or be computed with."""

    def _no(self, *a: Any) -> Any:
        raise Abort

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __int__ = __float__ = _no
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _no


Shapes = list[tuple[tuple[int, ...], torch.dtype]]
_INFERRED: dict[tuple[Any, ...], tuple[Shapes, type | None]] = {}


class Tracer(_current.Runtime):
    """The runtime that is current while a cell, a module or a single call is turned into a program."""

    tracing: ClassVar[bool] = True

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.vals: list[Val] = []
        self.code: list[Instr] = []
        self.shared: list[Tensor] = []
        self._ids: dict[int, int] = {}
        self.device = device
        self.lane = -1
        self.name = ""
        self.strict = False  # inside a person's cell: ragged lengths must not be used
        self.ragged_len = 0

    # ------------------------------------------------------------------ values
    def value(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        tracks: bool,
        ragged: bool = False,
        device: torch.device | None = None,
    ) -> Lazy:
        if ragged:
            self.ragged_len = shape[0]
        self.vals.append(Val(tuple(shape), dtype, ragged, tracks))
        meta = meta_of(tuple(shape), dtype, device or self.device, tracks, int(ragged) if ragged else None)
        return Lazy(len(self.vals) - 1, meta, -1, None)

    def symbol(self, meta: Meta, ragged: bool) -> Lazy:
        return self.value(tuple(meta.shape), meta.dtype, meta.tracks, ragged, meta.device)

    def val(self, x: Lazy) -> Val:
        return self.vals[x.slot]

    def is_ragged(self, x: Any) -> bool:
        return isinstance(x, Lazy) and self.vals[x.slot].ragged

    def weight(self, t: Tensor) -> int:
        k = self._ids.get(id(t))
        if k is None:
            k = self._ids[id(t)] = len(self.shared)
            self.shared.append(t)
        return ~k

    # ------------------------------------------------------------------ instructions
    def op(
        self,
        op: str,
        fn: Callable[..., Any],
        ins: list[Any],
        outs: list[tuple[tuple[int, ...], torch.dtype]],
        consts: tuple[Any, ...] = (),
        ragged: bool = False,
        rows: bool = False,
        opaque: bool = False,
        tracks: bool | None = None,
    ) -> list[Lazy]:
        ids = []
        grad = False
        for x in ins:
            if isinstance(x, Lazy):
                ids.append(x.slot)
                grad = grad or self.vals[x.slot].tracks
            else:
                ids.append(self.weight(x))
                with torch._C.DisableTorchFunction():
                    grad = grad or x.requires_grad
        grad = grad and torch.is_grad_enabled() if tracks is None else tracks
        res = [self.value(s, d, grad and (d.is_floating_point or d.is_complex), ragged) for s, d in outs]
        self.code.append(Instr(op, tuple(ids), consts, tuple(r.slot for r in res), fn, rows, self.name, opaque))
        return res

    def infer(self, key: Any, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Shapes:
        """Shapes and dtypes of `func`'s results for one example: the function itself, run on meta tensors."""
        return self.results(key, func, args, kwargs)[0]

    def results(
        self, key: Any, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> tuple[Shapes, type | None]:
        """The same, and the kind of tuple or list that holds them; None for one tensor."""
        with torch._C.DisableTorchFunction():
            cast = private.autocast_state()
            sig = (key, _describe(args), _describe(kwargs), torch.get_default_dtype(), cast)
        found = _INFERRED.get(sig)
        if found is None:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                where = "meta" if cast is False else str(self.device)  # autocast knows nothing of meta tensors
                given = _to_meta(args, where), _to_meta(kwargs, where)
                out = func(*given[0], **given[1])
                unchanged(key, tensors_of(given))
            kind = None if isinstance(out, Tensor) else type(out)
            outs = [out] if kind is None else list(out)
            if not all(isinstance(o, Tensor) and o.layout == torch.strided for o in outs):
                raise NoRule
            if len(_INFERRED) > 50_000:
                _INFERRED.clear()
            found = _INFERRED[sig] = ([(tuple(o.shape), o.dtype) for o in outs], kind)
        return found

    def finish(self, ins: list[Lazy], outs: list[Lazy]) -> Program:
        with torch._C.DisableTorchFunction():
            return self._finish(ins, outs)

    def _finish(self, ins: list[Lazy], outs: list[Lazy]) -> Program:
        keep = {o.slot for o in outs}
        code: list[Instr] = []
        for i in reversed(self.code):  # what nothing uses does not run
            if any(o in keep for o in i.outs):
                code.append(i)
                keep.update(k for k in i.ins if k >= 0)
        code.reverse()
        ragged = any(self.vals[x.slot].ragged for x in ins)
        desc = tuple((v.inner, v.dtype, v.ragged, v.tracks) for v in (self.vals[x.slot] for x in ins))
        key = (
            desc,
            tuple((i.op, i.ins, i.consts, i.outs) for i in code),
            tuple(o.slot for o in outs),
            tuple(
                (self.vals[o].inner, self.vals[o].dtype, self.vals[o].ragged, self.vals[o].tracks)
                for i in code
                for o in i.outs
            ),
            tuple((tuple(w.shape), w.dtype, w.requires_grad) for w in self.shared),
            self.device,
        )
        return Program(
            self.vals,
            tuple(x.slot for x in ins),
            tuple(o.slot for o in outs),
            code,
            len(self.shared),
            key,
            ragged,
            None,
            sorted({i.func_name or i.op for i in code if i.opaque}),
        )

    # ------------------------------------------------------------------ helpers of the batched forms
    def reshape(self, x: Lazy, shape: tuple[int, ...]) -> Lazy:
        v = self.vals[x.slot]
        shape = tuple(int.__int__(s) for s in shape)
        if v.ragged:
            if (
                not shape
                or shape[0] != v.shape[0]
                or (0 in v.shape and 0 not in v.shape[1:] and v.shape[1:] != shape[1:])
            ):
                raise NoRule
            inner = shape[1:]
            if prod(inner) != prod(v.shape[1:]):
                raise NoRule
        else:
            inner = shape
        made = next((i for i in reversed(self.code) if x.slot in i.outs), None)
        if made is not None and made.op == "reshape" and self.vals[made.ins[0]].inner == inner:
            return self.same(made.ins[0], x)  # there and back
        if inner == v.inner:
            return self.op("alias", lambda a: a, [x], [(shape, v.dtype)], ragged=v.ragged)[0]
        return self.op(
            "reshape",
            lambda a: a.reshape(a.shape[0], *inner),
            [x],
            [(shape, v.dtype)],
            (inner,),
            ragged=v.ragged,
        )[0]

    def same(self, slot: int, like: Lazy) -> Lazy:
        """Another name of a value that is there."""
        v = self.vals[slot]
        meta = meta_of(v.shape, v.dtype, like.meta.device, v.tracks, int(v.ragged) if v.ragged else None)
        return Lazy(slot, meta, -1, None)

    def align(self, x: Lazy, rank: int) -> Lazy:
        """The same value with ones in front of its inner shape, up to `rank` inner dimensions."""
        v = self.vals[x.slot]
        missing = rank - len(v.inner)
        if missing <= 0:
            return x
        inner = (1,) * missing + v.inner
        shape = (v.shape[0], *inner) if v.ragged else inner
        return self.op(
            "reshape",
            lambda a: a.reshape(a.shape[0], *inner),
            [x],
            [(shape, v.dtype)],
            (inner,),
            ragged=v.ragged,
        )[0]

    def spread(self, w: Tensor, like: Lazy, ragged: bool, shape: tuple[int, ...]) -> Lazy:
        """A shared tensor once per example (or per ragged row), without copying it."""
        return self.op(
            "spread",
            lambda t, a: t.expand(a.shape[0], *t.shape),
            [w, like],
            [(shape, w.dtype)],
            ragged=ragged,
            tracks=w.requires_grad and torch.is_grad_enabled(),
        )[0]

    def check_ragged(self, shape: tuple[int, ...], tensors: list[Any]) -> None:
        for x in tensors:
            if self.is_ragged(x) and (len(x.meta.shape) != len(shape) or x.meta.shape[0] != shape[0]):
                raise NoRule

    # ------------------------------------------------------------------ calls
    def emit(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = self._inputs(args), self._inputs(kwargs)
        if not (has_lazy(args) or has_lazy(kwargs)):
            from plait.batching.kernels.pointwise import OWN

            f = OWN.get(name) or (function_of(name) if type(name) is str else name)
            return self.shared_call(name, f, args, kwargs)
        return lower(self, name, args, kwargs)

    def _inputs(self, a: Any) -> Any:
        t = type(a)
        if t is Lazy:
            e = a.extra
            if type(e) is Const:
                return e.tensor
            if a.lane != self.lane:
                self.foreign(a)
            if e is not None:
                fresh(self, a)
            return a
        if t is tuple or t is list:
            return t(self._inputs(x) for x in a)
        if t is dict:
            return {k: self._inputs(x) for k, x in a.items()}
        if t is slice:
            return slice(self._plain(a.start), self._plain(a.stop), self._plain(a.step))
        return self._plain(a)

    @staticmethod
    def _plain(a: Any) -> Any:
        return int.__int__(a) if type(a) is RaggedDim else a

    def shared_call(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            out = func(*args, **kwargs)
        if isinstance(out, Tensor) and type(out) is not Lazy:  # type: ignore[comparison-overlap]
            return self.const(out, args)
        if type(out) in (tuple, list) and any(isinstance(o, Tensor) for o in out):
            return type(out)(self.const(o, args) if isinstance(o, Tensor) else o for o in out)
        return out

    def const(self, t: Tensor, args: Any) -> Lazy:
        mine = not shares_memory(t, args)
        return Lazy(
            -1,
            meta_of(tuple(t.shape), t.dtype, t.device, t.requires_grad),
            -1,
            Const(t, None if mine else shared_source(t)),
        )

    def read(self, x: Lazy) -> Any:
        raise CellError(
            "reads a value (an if, .item(), print or an index), which a cell must not; take the decision outside"
        )

    def alone(self, name: str, func: Any, args: Any, kwargs: Any, why: str = _current.SIZE_DEPENDS) -> Any:
        raise CellError(f"calls {name}, which runs one example at a time ({why}); call it outside of the cell")

    def reals(self, a: Any) -> Any:
        raise CellError("reads a value, which a cell must not; take the decision outside")

    def random(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        raise CellError(f"draws random numbers ({name}); draw them outside of the cell and pass them in")

    def name_of(self, x: Tensor) -> str:
        return shared_source(x)

    def foreign(self, x: Lazy) -> NoReturn:
        raise CellError("uses a value of the surrounding code that is not among its arguments; pass it in")

    def own(self, x: Lazy) -> None:
        """Nothing to do: writes rebind the name."""


def traced_shape(rt: Any, x: Lazy) -> Any:
    if rt.is_ragged(x) and rt.strict:
        return (RaggedDim(x.meta.shape[0]), *x.meta.shape[1:])
    return x.meta.shape


def traced_len(rt: Any, x: Lazy) -> int:
    if rt.is_ragged(x) and rt.strict:
        raise Abort
    return x.meta.shape[0]


class CellError(Exception):
    """A cell does what it must not; the caller turns it into a sentence with the cell's name and line."""


def shares_memory(t: Tensor, args: Any) -> bool:
    """True if `t` looks into one of the tensors among `args`."""
    if isinstance(args, (tuple, list)):
        return any(shares_memory(t, a) for a in args)
    if not isinstance(args, Tensor):
        return False
    try:
        return t.untyped_storage().data_ptr() == args.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return True


def _describe(a: Any) -> Any:
    if isinstance(a, (Lazy, Tensor)):
        return (tuple(a.shape), a.dtype, a.dim())
    if isinstance(a, (tuple, list)):
        return (type(a), tuple(_describe(x) for x in a))
    if isinstance(a, dict):
        return tuple((k, _describe(v)) for k, v in a.items())
    if isinstance(a, slice):
        return ("slice", a.start, a.stop, a.step)
    if isinstance(a, float):
        return (float, repr(a))
    return (type(a), a)


def _to_meta(a: Any, where: str) -> Any:
    make = torch.empty if where == "meta" else torch.zeros
    if isinstance(a, Lazy):
        return make(tuple(int.__int__(s) for s in a.meta.shape), dtype=a.meta.dtype, device=where)
    if isinstance(a, Tensor):
        return make(tuple(a.shape), dtype=a.dtype, device=where)
    if isinstance(a, tuple) and type(a) is tuple:
        return tuple(_to_meta(x, where) for x in a)
    if isinstance(a, list):
        return [_to_meta(x, where) for x in a]
    if isinstance(a, dict):
        return {k: _to_meta(v, where) for k, v in a.items()}
    return int.__int__(a) if isinstance(a, RaggedDim) else a
