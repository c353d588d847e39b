"""From a call seen for the first time to an entry: what it gives back, and which signature it waits under."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plait import _torch as private
from plait.batching._call import Call
from plait.batching._core_choice import Entry
from plait.batching._hoist import hoist_of
from plait.batching._known import Described, Traced, describe
from plait.batching._lazy import Lazy
from plait.batching._marks import Const
from plait.batching._meta import Meta, meta_of
from plait.batching._program import Program
from plait.batching._signature import Sig
from plait.batching._tree import is_tuple, sequence
from plait.batching.kernels import lower
from plait.batching.kernels.pointwise import NAMES

if TYPE_CHECKING:
    from plait.batching._runtime import LaneRuntime

_PROGRAMS: dict[Any, Program] = {}


SMALL = 4096


class LaneRows:
    """Which shared tensors become rows."""

    @staticmethod
    def is_row(t: Tensor, weight: bool) -> bool:
        """Whether a shared tensor in this place becomes a row rather than part of the signature."""
        if weight:
            return False
        with private.DisableTorchFunction():
            large = t.numel() > SMALL or (t.requires_grad and t.is_leaf and t.dim() > 1)
            return not large and t.layout == torch.strided


# Ops whose ragged form does not depend on the length, whatever their other arguments are.
ANY_LENGTH = frozenset(NAMES) | {
    "linear",
    "matmul",
    "mm",
    "mv",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "embedding",
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "self_attention",
    "to_dtype",
    "sum",
    "mean",
    "amax",
    "amin",
    "logsumexp",
}


def build(
    rt: LaneRuntime, name: Any, args: Any, kwargs: Any, ins: list[Lazy], shared: frozenset[int], key: Any
) -> Entry:
    """An entry for one op."""
    known = name in ANY_LENGTH
    return build_call(
        name if type(name) is str else getattr(name, "__name__", "op"),
        Call(rt, lambda t, a, k: lower(t, name, a, k), args, kwargs, ins, shared),
        key if known else None,
        False,
        describe(rt, name, args, kwargs, shared) if known else None,
    )


def build_call(label: str, call: Call, key: Any, strict: bool, described: Described | None) -> Entry:
    """An entry for a call: from its trace, or from what is known already.

    `key` (None where the form depends on the length) leads to what was built for another length, `described` to what
    was traced in another batch.
    """
    rt, length = call.rt, call.length
    family = None
    if length and key is not None:
        family = tuple(
            [("ragged", m.space, m.tracks) if type(m) is Meta and m.lead and m.rows == length else m for m in key]
        )
        like = rt.families.get(family)
        if like is not None:
            return other_length(like, length)
    traced = described.find() if described is not None else None
    if traced is None:
        traced = call.traced(strict)
        if described is not None:
            described.keep(traced)
    entry = entry_of(rt, label, traced, call.ins)
    if family is not None and traced.length is not None:
        rt.families[family] = entry, traced
    return entry


def other_length(like: tuple[Entry, Traced], length: int) -> Entry:
    """The entry of a ragged call for examples of another length."""
    entry, t = like
    new = [
        meta_of((length, *m.shape[1:]), m.dtype, m.device, m.tracks, 1) if ragged else m
        for m, ragged in zip(t.metas, t.ragged)
    ]
    return make_entry(entry.sig, length, new, t.out)


def entry_of(rt: LaneRuntime, label: str, t: Traced, ins: list[Lazy]) -> Entry:
    autocast = private.autocast_state()
    program = t.program
    vals = program.vals
    places_in = tuple(
        [
            (vals[k].inner, vals[k].ragged, x.meta.space, -1 if vals[k].ragged else x.meta.rows)
            for k, x in zip(program.ins, ins)
        ]
    )
    key = (program.key, tuple([id(w) for w in t.shared]), places_in, torch.is_grad_enabled(), autocast)
    sig = rt.sigs.get(key)
    if sig is None:
        known = _PROGRAMS.get((program.key, autocast))
        if known is None:
            known = program
            if not autocast:
                from plait.batching._compile import compile_program

                known.compiled = compile_program(known)
                known.hoist = hoist_of(known)
            if len(_PROGRAMS) > 4096:
                _PROGRAMS.clear()
            _PROGRAMS[(program.key, autocast)] = known  # once it is whole: another thread may look
        sig = Sig(len(rt.sig_list), label, known, t.shared)
        sig.ragged = program.ragged
        sig.autocast = autocast
        sig.in_metas = list(places_in)
        sig.out_spaces = [m.space for m in t.metas]
        sig.out_rows = [-1 if ragged else m.rows for ragged, m in zip(t.ragged, t.metas)]
        sig.out_tracks = [m.tracks for m in t.metas]
        if known.hoist is not None and places_in[known.hoist.column][3] == 1:
            sig.hoist = known.hoist
        rt.sigs[key] = sig
        rt.add_sig(sig)
        for alone in program.alone:
            rt.report.by_vmap(alone)
    return make_entry(sig.index, 1 if t.length is None else t.length, t.metas, t.out)


def make_entry(sig: int, length: int, metas: list[Meta], out: Any) -> Entry:
    offs: list[int] = []
    at = 0
    for m in metas:
        offs.append(at)
        at += m.rows
    single = type(out) is Lazy and type(out.extra) is not Const
    return Entry(sig, length, at, tuple(offs), tuple(metas), int(single), None if single else _wrapper(out))


def _rebuild(out: Any, feed: Any) -> Any:
    t = type(out)
    if t is Lazy:
        return next(feed) if type(out.extra) is not Const else out.extra.tensor
    if t is list or is_tuple(out):
        return sequence(t, [_rebuild(x, feed) for x in out])
    if t is dict:
        return {k: _rebuild(v, feed) for k, v in out.items()}
    return out


def _wrapper(out: Any) -> Callable[[Any], Any] | None:
    if type(out) is tuple and all(type(x) is Lazy and type(x.extra) is not Const for x in out):
        return None
    if type(out) is list and all(type(x) is Lazy and type(x.extra) is not Const for x in out):
        return list
    return lambda xs: _rebuild(out, iter(xs))
