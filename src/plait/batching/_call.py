"""One call by one example, run on symbols: with ragged rows if that works, else with these exact shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from plait.batching._current import local
from plait.batching._known import Traced
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._meta import Meta, meta_of
from plait.batching._program import NoRule, Program
from plait.batching._trace import Abort, Tracer

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime


@dataclass(slots=True)
class Call:
    """`run(tracer, args, kwargs)`; `ins` are the values of the example among the arguments, in order; `shared` says
    which positions hold weights."""

    rt: LaneRuntime
    run: Callable[[Tracer, Any, Any], Any]
    args: Any
    kwargs: Any
    ins: list[Lazy]
    shared: frozenset[int]

    @property
    def length(self) -> int | None:
        """The number of rows that counts as ragged: the first input that is rows decides."""
        for x in self.ins:
            if x.meta.lead:
                return x.meta.rows
        return None

    def traced(self, strict: bool) -> Traced:
        """The call as a program; `strict` if it may use the length behind our back, as a person's code may."""
        length = self.length
        if length is not None:
            try:
                t, syms, out = self._trace(length, strict, 0)
                program = t.finish(syms, lazies(out))
                if not strict or self._same_for_other_lengths(length, t, program):
                    return traced_of(t, program, out, length)
            except (NoRule, Abort):
                pass
            except (RuntimeError, ValueError, TypeError, IndexError):
                if not strict:
                    raise
        t, syms, out = self._trace(None, False, 0)
        return traced_of(t, t.finish(syms, lazies(out)), out, None)

    def _trace(self, length: int | None, strict: bool, grow: int) -> tuple[Tracer, list[Lazy], Any]:
        """Once, with ragged inputs that are `grow` rows longer."""
        t = Tracer(self.rt.device)
        t.strict = strict
        syms: list[Lazy] = []
        for x in self.ins:
            ragged = length is not None and x.meta.lead == 1 and x.meta.rows == length
            meta = x.meta
            if ragged and grow:
                meta = meta_of((meta.rows + grow, *meta.shape[1:]), meta.dtype, meta.device, meta.tracks, 1)
            syms.append(t.symbol(meta, ragged))
        feed = iter(syms)
        args = tuple(_substitute(x, feed, i in self.shared, self.rt) for i, x in enumerate(self.args))
        kwargs = {n: _substitute(x, feed, True, self.rt) for n, x in self.kwargs.items()}
        before = local.rt
        local.rt = t
        try:
            out = self.run(t, args, kwargs)
        finally:
            local.rt = before
        return t, syms, out

    def _same_for_other_lengths(self, length: int, t: Tracer, program: Program) -> bool:
        """Whether the code comes out the same for two more lengths (it may hold a `range(len(x))`)."""
        for grow in (1, 3):
            try:
                t2, syms, out = self._trace(length, True, grow)
            except (NoRule, Abort, RuntimeError, ValueError, TypeError, IndexError):
                return False
            if t2.finish(syms, lazies(out)).key != program.key or [id(w) for w in t2.shared] != [
                id(w) for w in t.shared
            ]:
                return False
        return True


def traced_of(t: Tracer, program: Program, out: Any, length: int | None) -> Traced:
    outs = lazies(out)
    return Traced(program, t.shared, out, [_out_meta(t, o) for o in outs], [t.val(o).ragged for o in outs], length)


def _substitute(a: Any, feed: Any, weight: bool, rt: LaneRuntime) -> Any:
    t = type(a)
    if t is Lazy:
        if type(a.extra) is Const:
            return _substitute(a.extra.tensor, feed, weight, rt)
        return next(feed)
    if t is tuple or t is list:
        return t(_substitute(x, feed, weight, rt) for x in a)
    if t is dict:
        return {k: _substitute(v, feed, weight, rt) for k, v in a.items()}
    if isinstance(a, Tensor) and rt.is_row(a, weight):
        return next(feed)
    return a


def lazies(out: Any) -> list[Lazy]:
    """The values in nested results, in order."""
    found: list[Lazy] = []
    _collect(out, found)
    return found


def _collect(out: Any, found: list[Lazy]) -> None:
    t = type(out)
    if t is Lazy:
        if type(out.extra) is not Const:
            found.append(out)
    elif isinstance(out, (tuple, list)):
        for x in out:
            _collect(x, found)
    elif t is dict:
        for x in out.values():
            _collect(x, found)


def _out_meta(t: Tracer, o: Lazy) -> Meta:
    v = t.val(o)
    shape = tuple(int.__int__(s) for s in v.shape)
    return meta_of(shape, v.dtype, o.meta.device, v.tracks, 1 if v.ragged else None)
