"""Records the calls of all lanes as waiting nodes; runs them in groups when somebody needs a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from plait import _torch as private
from plait._watch import BatchWatch
from plait.batching._build import SMALL, LaneRows, build, fast_key
from plait.batching._core_choice import Core, Entry
from plait.batching._current import SIZE_DEPENDS, Runtime
from plait.batching._dispatch import call
from plait.batching._execute import Executor
from plait.batching._lazy import INPUT, Alias, BatchError, Const, Lazy, Written
from plait.batching._meta import Meta, Space, meta_of
from plait.batching._names import TRAINS, function_of
from plait.batching._report import Report
from plait.batching._schedule import components
from plait.batching._shared import has_lazy, shared_source, unwrap
from plait.batching._signature import Sig, scalar_key
from plait.batching._site import refuse, site, site_key
from plait.batching._trace import shares_memory
from plait.batching._writes import fresh, row_chain

# Positions that hold weights: the tensor itself is part of the signature.  Anywhere else a shared tensor becomes a row.
WEIGHTS: dict[str, frozenset[int]] = {
    "linear": frozenset({1, 2}),
    "embedding": frozenset({1}),
    "layer_norm": frozenset({2, 3}),
    "table_lookup": frozenset({1}),
    "matmul": frozenset({0, 1}),
    "mm": frozenset({0, 1}),
    "mv": frozenset({0, 1}),
    "bmm": frozenset({0, 1}),
    "addmm": frozenset({0, 1, 2}),
    "batch_norm": frozenset({1, 2, 3, 4}),
    "group_norm": frozenset({2, 3}),
    "rms_norm": frozenset({2}),
    "bilinear": frozenset({2, 3}),
}
ALL = frozenset(range(32))
DATA_FIRST = frozenset(
    {
        "cat",
        "stack",
        "cross_entropy",
        "nll_loss",
        "where",
        "assign",
        "view_scatter",
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "lerp",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "index_put",
        "scaled_dot_product_attention",
        "cell",
    }
)


class LaneRuntime(Runtime, LaneRows):
    """The runtime of one call of a batched function."""

    def __init__(self, report: Report, randomness: str, device: torch.device, names: Callable[[Tensor], str]) -> None:
        self.core = Core(Lazy, INPUT, torch.is_grad_enabled, private.is_autocast_on, components, Tensor, nn.Parameter)
        super().__init__()
        self.report = report
        self.randomness = randomness
        self.names = names
        self.device = device
        self.entries: dict[tuple[Any, ...], Entry] = self.core.entries
        self.sigs: dict[tuple[Any, ...], Sig] = {}
        self.sig_list: list[Sig] = []
        self.families: dict[Any, Any] = {}  # ragged calls by what they are apart from the length
        self.spaces: dict[Space, int] = {}
        self.take = self.core.take
        self.record = self.core.record
        self.exec = Executor(self)
        self.promoted: dict[int, tuple[Tensor, Lazy]] = {}
        self.calls: dict[Any, Any] = {}
        self.keep: list[Any] = []  # whatever is known by its id() must stay alive
        self.random_calls: dict[int, int] = {}
        self.viewed: set[int] = set()
        self.module_kinds: dict[Any, str] = {}
        self.seed = 0
        self.pause: Callable[[Any], Any] = lambda request: None
        self.watch: BatchWatch | None = None

    @property
    def lane(self) -> int:
        """The example whose code runs."""
        return self.core.lane  # type: ignore[no-any-return]

    @lane.setter
    def lane(self, lane: int) -> None:
        self.core.lane = lane

    # ------------------------------------------------------------------ pure calls
    def emit(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kwargs:
            res = self.core.call(name, None, args)
            if res is not NotImplemented:
                return res
        if name == "cat" or name == "stack":
            joined = self._join(name, args, kwargs)
            if joined is not None:
                return joined
        key: list[Any] = [name, torch.is_grad_enabled(), private.autocast_state()]
        ins: list[Lazy] = []
        shared = WEIGHTS.get(name, ALL if name not in DATA_FIRST else frozenset()) if type(name) is str else ALL
        lazy = False
        for i, a in enumerate(args):
            if type(a) is Lazy and a.extra is None:
                if a.lane != self.lane:
                    self._foreign(a)
                key.append(a.meta)
                ins.append(a)
                lazy = True
            else:
                lazy = self._scan(a, key, ins, i in shared) or lazy
        for k, v in kwargs.items():
            key.append(k)
            lazy = self._scan(v, key, ins, True) or lazy
        if not lazy:
            return self._all_shared(name, args, kwargs)
        frozen = tuple(key)
        entry = self.entries.get(frozen)
        if entry is None:
            entry = self.entries[frozen] = build(self, name, args, kwargs, ins, shared, frozen)
        if not kwargs:
            fast = fast_key(name, None, args, None, shared)
            if fast is not None:
                self.entries[fast] = entry
        return self.record(entry, ins)

    def _scan(self, a: Any, key: list[Any], ins: list[Lazy], weight: bool) -> bool:
        """Adds one argument to the key and its values to `ins`; True if it depends on the example."""
        t = type(a)
        if t is Lazy:
            e = a.extra
            if type(e) is Const:
                return self._scan_shared(e.tensor, a, key, ins, weight)
            if e is not None and e is not INPUT:
                fresh(self, a)
            if a.lane != self.lane:
                self._foreign(a)
            key.append(a.meta)
            ins.append(a)
            return True
        if t is tuple or t is list:
            key.append(t)
            key.append(len(a))
            lazy = False
            for x in a:
                lazy = self._scan(x, key, ins, weight) or lazy
            return lazy
        if t is dict:
            key.append(len(a))
            lazy = False
            for k, x in a.items():
                key.append(k)
                lazy = self._scan(x, key, ins, weight) or lazy
            return lazy
        if isinstance(a, Tensor):
            return self._scan_shared(a, None, key, ins, weight)
        key.append(scalar_key(a))
        return False

    def _scan_shared(self, t: Tensor, handle: Lazy | None, key: list[Any], ins: list[Lazy], weight: bool) -> bool:
        if not self.is_row(t, weight):
            key.append(("shared", id(t)))  # writes to it are refused while lanes run
            if id(t) not in self.promoted:
                self.keep.append(t)
            return False
        x = self.promote(t)
        key.append(x.meta)
        ins.append(x)
        return False

    def promote(self, t: Tensor) -> Lazy:
        """A shared tensor as a row of its own, so that it batches with values of examples in the same place."""
        found = self.promoted.get(id(t))
        if found is None:
            with private.DisableTorchFunction():
                meta = meta_of(tuple(t.shape), t.dtype, t.device, t.requires_grad)
                x = Lazy(self.take(meta.rows), meta, self.lane, None)
                self.exec.add_leaf(t, x.slot, meta)
            found = self.promoted[id(t)] = (t, x)  # handed out as copies: a handle may be rebound by a write
        return Lazy(found[1].slot, found[1].meta, self.lane, None)

    def add_sig(self, sig: Sig) -> None:
        """Makes a signature known to the core, under the number it has."""
        ins = tuple([per for _, _, _, per in sig.in_metas])
        spaces = tuple([self.space_id(s) for s in sig.out_spaces])
        number = self.core.sig(int(sig.kind == "gather"), int(sig.ragged), ins, tuple(sig.out_rows), spaces)
        assert number == sig.index == len(self.sig_list)
        self.sig_list.append(sig)
        self.report.kinds[sig.name] += 1

    def space_id(self, space: Space) -> int:
        k = self.spaces.get(space)
        if k is None:
            k = self.spaces[space] = len(self.spaces)
            self.exec.add_arena(space)
        return k

    def _foreign(self, x: Lazy) -> None:
        refuse(
            f"example {self.lane} uses a value that example {x.lane} made"
            if x.lane >= 0
            else "a value from inside of a cell is used outside of it",
            "each example must be a function of its own arguments; return the value instead of keeping it in an attribute, "  # noqa: E501
            "a list or a global",
        )

    def _all_shared(self, name: Any, args: Any, kwargs: Any) -> Any:
        from plait.batching.kernels.pointwise import OWN

        if name == "view_scatter":
            root, new, chain = unwrap(args)
            with private.DisableTorchFunction():
                out = root.clone()
                part = out
                for n, a, k in chain:
                    part = (Tensor.__getitem__ if n == "__getitem__" else function_of(n))(part, *a, **dict(k))
                part.copy_(new)
            return self.const(out, ())
        f = OWN.get(name) or (function_of(name) if type(name) is str else name)
        return self.shared_call(str(name), f, unwrap(args), unwrap(kwargs))

    # ------------------------------------------------------------------ rows: joins and tensor views without a call
    def _join(self, name: str, args: Any, kwargs: Any) -> Any:
        """`cat` along rows and `stack` of rows: a copy of rows, whatever their number."""
        xs = args[0] if args else kwargs.get("tensors")
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        if dim != 0 or type(xs) not in (list, tuple) or not xs or len(kwargs) > 1:
            return None
        lead = 1 if name == "cat" else 0
        flat = self.core.parts(xs)
        if flat is not NotImplemented and type(xs[0].extra) is not Lazy:
            m = xs[0].meta
            if m.lead != lead:
                return None
            rows = m.rows * len(xs)
            tracks = m.tracks and torch.is_grad_enabled()
            sig = self.exec.gather_sig(m.space, tracks)
            meta = meta_of((rows, *m.space.inner), m.dtype, m.device, tracks, 1)
            self.entries[(m, rows, torch.is_grad_enabled())] = Entry(sig.index, rows, rows, (0,), (meta,), 1, None)
            return Lazy(self.core.put(sig.index, rows, flat, rows), meta, self.lane, None)
        parts: list[Lazy] = []
        for x in xs:
            if type(x) is not Lazy:
                if not isinstance(x, Tensor) or x.numel() > SMALL:
                    return None
                x = self.promote(x)
            elif type(x.extra) is Const:
                x = self.promote(x.extra.tensor)
            elif x.extra is not None and x.extra is not INPUT:
                fresh(self, x)
            if x.lane != self.lane:
                self._foreign(x)
            parts.append(x)
        m0 = parts[0].meta
        tracks = False
        space = m0.space
        rows = 0
        for x in parts:
            m = x.meta
            if m.space is not space or m.lead != lead:
                return None
            tracks = tracks or m.tracks
            rows += m.rows
        tracks = tracks and torch.is_grad_enabled()
        if tracks:  # a detached name shares rows that do want a gradient: copy those
            parts = [
                self.emit("detach", (x,), {})
                if not x.meta.tracks and x.extra is not None and x.extra is not INPUT
                else x
                for x in parts
            ]
        meta = meta_of((rows, *space.inner), space.dtype, space.device, tracks, 1)
        slot = parts[0].slot
        at = slot
        root = parts[0].extra
        for x in parts:
            if x.slot != at or x.meta.tracks != tracks or x.extra is not root or type(root) is not Lazy:
                break
            at += x.meta.rows
        else:
            return Lazy(slot, meta, self.lane, None)  # the rows already follow one another
        sig = self.exec.gather_sig(space, tracks)
        base = self.core.put(sig.index, rows, tuple([k for x in parts for k in (x.slot, x.meta.rows)]), rows)
        return Lazy(base, meta, self.lane, None)

    def rows_view(self, name: str, x: Lazy, args: Any, kwargs: Any) -> Any:
        """Views that only name other rows: x[t], x[a:b], iteration, a dimension of one added or taken in front."""
        m = x.meta
        e = x.extra
        root = x if e is None or e is INPUT or type(e) is Written else e if type(e) is Lazy else None
        if root is None or (type(root.extra) is Written):
            return None
        if name == "__getitem__":
            i = args[0]
            if type(i) is tuple and len(i) == 1:
                i = i[0]
            if m.lead and type(i) is int:
                n = m.rows
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of bounds for dimension 0 with size {n}")
                return self._row(x, root, i % n if n else 0, 1, 0)
            if m.lead and type(i) is slice and i.step in (None, 1):
                start, stop, _ = i.indices(m.rows)
                return self._row(x, root, start, max(stop - start, 0), 1)
            if i is None and not m.lead:
                return self._row(x, root, 0, 1, 1)
            return None
        if name == "unbind" and m.lead and (args[0] if args else kwargs.get("dim", 0)) in (0, -len(m.shape)):
            return tuple([self._row(x, root, i, 1, 0) for i in range(m.rows)])
        if name in ("split", "chunk", "split_with_sizes") and m.lead and len(args) == 1 and not kwargs:
            return self._split(name, x, root, args[0])
        if name == "unsqueeze" and not m.lead and not kwargs and args and args[0] in (0, -len(m.shape) - 1):
            return self._row(x, root, 0, 1, 1)
        if name == "squeeze" and m.lead and m.rows == 1 and not kwargs and args and args[0] in (0, -len(m.shape)):
            return self._row(x, root, 0, 1, 0)
        if name in ("select", "narrow") and m.lead and not kwargs and args and args[0] in (0, -len(m.shape)):
            return (
                self.rows_view(
                    "__getitem__",
                    x,
                    (args[1] if name == "select" else slice(args[1], args[1] + args[2]),),
                    {},
                )
                if all(type(a) is int for a in args) and (name == "select" or 0 <= args[1] <= m.rows - args[2])
                else None
            )
        if name in ("view", "reshape"):
            shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
            if (
                not m.lead
                and len(shape) == len(m.shape) + 1
                and shape[0] in (1, -1)
                and tuple(shape[1:]) in (tuple(m.shape), (-1,) if shape[0] == 1 and len(m.shape) == 1 else ())
            ):
                return self._row(x, root, 0, 1, 1)
            if m.lead and m.rows == 1 and len(m.shape) == 2 and len(shape) == 1 and shape[0] in (-1, m.shape[1]):
                return self._row(x, root, 0, 1, 0)
        return None

    def _row(self, x: Lazy, root: Lazy, at: int, count: int, lead: int) -> Lazy:
        m = x.meta
        inner = m.space.inner
        tracks = m.tracks and torch.is_grad_enabled()
        meta = meta_of((count, *inner) if lead else inner, m.dtype, m.device, tracks, lead)
        view = Lazy(x.slot + at, meta, self.lane, root)
        if m.tracks and not tracks:
            view.extra = Alias(root, row_chain(view, root), 0, False)
        return view

    def _split(self, name: str, x: Lazy, root: Lazy, how: Any) -> Any:
        n = x.meta.rows
        if name == "chunk":
            if type(how) is not int or how <= 0:
                return None
            how = -(-n // how) if n else 1
        if type(how) is int:
            if how <= 0 or n == 0:
                return None
            sizes = [min(how, n - i) for i in range(0, n, how)]
        else:
            sizes = list(how)
            if sum(sizes) != n or not all(type(s) is int for s in sizes):
                return None
        out, at = [], 0
        for s in sizes:
            out.append(self._row(x, root, at, s, 1))
            at += s
        return tuple(out)

    # ------------------------------------------------------------------ calls that no example changes
    def shared_call(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs once; every lane that makes the same call gets the same constant."""
        ids: list[Any] = []
        key = (
            func if type(name) is not str or not name else name,
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            _call_key(args, ids),
            _call_key(kwargs, ids),
        )
        hit = self.calls.get(key)
        if hit is None:
            with private.DisableTorchFunction():
                out = func(*args, **kwargs)
            if not _tensors_in(out):
                return out
            self.keep.append(ids)
            hit = self.calls[key] = (out, args)
        out, args = hit
        if isinstance(out, Tensor):
            return self.const(out, args)
        return (
            type(out)(self.const(o, args) if isinstance(o, Tensor) else o for o in out)
            if type(out) in (tuple, list)
            else (tuple(self.const(o, args) if isinstance(o, Tensor) else o for o in out))
        )

    def const(self, t: Tensor, args: Any) -> Any:
        if isinstance(args, (tuple, list)) and any(a is t for a in args):
            return t  # x.contiguous() and its like gave the tensor itself
        source = None
        if args and shares_memory(t, args):
            source = self.name_of(t)
            self.viewed.add(t.untyped_storage().data_ptr())
        elif not args or not any(isinstance(a, Tensor) for a in args):  # noqa: SIM102
            if t.numel() <= SMALL and not t.requires_grad:
                return self.promote(t)  # zeros(n) and its like: a row, which may be written
        return Lazy(-1, meta_of(tuple(t.shape), t.dtype, t.device, t.requires_grad), self.lane, Const(t, source))

    def own(self, x: Lazy) -> None:
        """A constant that this lane is about to write becomes a row of its own (its tensor is shared)."""
        e = x.extra
        if type(e) is Const:
            with private.DisableTorchFunction():
                if e.tensor.untyped_storage().data_ptr() in self.viewed:
                    refuse("a write in place to a constant that has another name", "clone it first")
            p = self.promote(e.tensor)
            x.slot, x.meta = p.slot, p.meta
            x.extra = None

    def name_of(self, x: Any) -> str:
        return self.names(x) if isinstance(x, Tensor) else shared_source(x)

    # ------------------------------------------------------------------ values
    def read(self, x: Lazy) -> Any:
        if type(x.extra) is Const:
            with private.DisableTorchFunction():
                return x.extra.tensor.detach().tolist()
        if x.extra is not None:
            fresh(self, x)
        if x.lane != self.lane:
            self._foreign(x)
        if not self.exec.done(x.slot):
            return self.pause(("read", x, site_key(2)))
        with private.DisableTorchFunction():
            return self.exec.value(x).tolist()

    def tensor(self, x: Lazy) -> Tensor:
        """The value as a tensor of its own (no gradient)."""
        if type(x.extra) is Const:
            return x.extra.tensor.detach()
        if x.extra is not None:
            fresh(self, x)
        if x.lane != self.lane:
            self._foreign(x)
        if not self.exec.done(x.slot):
            self.pause(("wait", x, site_key(2)))
        with private.DisableTorchFunction():
            return self.exec.value(x).clone()

    def reals(self, a: Any) -> Any:
        t = type(a)
        if t is Lazy:
            return self.tensor(a)
        if t is tuple or t is list:
            return t(self.reals(x) for x in a)
        if t is dict:
            return {k: self.reals(v) for k, v in a.items()}
        return a

    def alone(self, name: str, func: Any, args: Any, kwargs: Any, why: str = SIZE_DEPENDS) -> Any:
        """A call whose result is not known before it ran: runs for this example only, and is reported."""
        lazies: list[Lazy] = []
        spec = _hole(args, lazies), _hole(kwargs, lazies)
        reals = [self.tensor(x) for x in lazies]
        self.report.ran_alone(name, why)
        grad = torch.is_grad_enabled()
        with private.DisableTorchFunction():
            for r, x in zip(reals, lazies):
                if x.meta.tracks and grad:
                    r.requires_grad_(True)

            def run(xs: list[Tensor]) -> Any:
                return func(*_plug(spec[0], xs), **_plug(spec[1], xs))

            def again(xs: list[Tensor]) -> list[Any]:
                out = run(xs)
                return [out] if isinstance(out, Tensor) else list(out)

            out = run(reals)
        many = not isinstance(out, Tensor)
        res = list(out) if many else [out]
        outs = self.exec.add_alone(res, reals, lazies, again)
        return tuple(outs) if many else outs[0]

    # ------------------------------------------------------------------ random numbers
    def random(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        if self.randomness == "error":
            raise BatchError(
                f"`{name}` draws random numbers ({site()}, example {self.lane}): pass randomness='different' to draw for each "  # noqa: E501
                "example (another stream than the loop's), 'same' to give all examples the same draw, or .eval() the model"  # noqa: E501
            )
        self.random_calls[self.lane] = k = self.random_calls.get(self.lane, -1) + 1
        f = func if func is not None else function_of(name)
        with torch.random.fork_rng(devices=[], enabled=self.randomness == "same"):
            if self.randomness == "same":
                torch.manual_seed(self.seed + k)
            return self._draw(name, f, args, kwargs)

    def _draw(self, name: str, f: Any, args: Any, kwargs: Any) -> Any:
        if (
            name
            in (
                "dropout",
                "alpha_dropout_",
                "dropout1d",
                "dropout2d",
                "dropout3d",
                "feature_dropout",
                "native_dropout",
            )
            and type(args[0]) is Lazy
            and TRAINS.get(name)
        ):
            x, p = args[0], args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            with private.DisableTorchFunction():
                mask = f(torch.ones(x.meta.shape, dtype=x.meta.dtype, device=x.meta.device), p, True)
            mask_lazy = self.private(mask)
            if kwargs.get("inplace"):
                return call("mul_", (x, mask_lazy), {})
            return self.emit("mul", (x, mask_lazy), {})
        if name.endswith("_") and type(args[0]) is Lazy:
            x = args[0]
            with private.DisableTorchFunction():
                drawn = f(
                    torch.empty(x.meta.shape, dtype=x.meta.dtype, device=x.meta.device),
                    *self.reals(args[1:]),
                    **self.reals(kwargs),
                )
            return call("copy_", (x, self.private(drawn)), {})
        if name.endswith("_"):
            refuse(f"`{name}` writes to {self.name_of(args[0])}", "draw into a new tensor")
        if name.endswith("_like"):
            x = args[0]
            with private.DisableTorchFunction():
                return self.private(f(torch.empty(tuple(x.shape), dtype=x.dtype, device=x.device), *args[1:], **kwargs))
        if has_lazy(args) or has_lazy(kwargs):
            if name in ("gumbel_softmax", "rrelu", "alpha_dropout", "feature_alpha_dropout"):
                return self.alone(name, f, args, kwargs)
            with private.DisableTorchFunction():
                pass
            reals = self.reals(args), self.reals(kwargs)  # the draw itself has no derivative
            with private.DisableTorchFunction():
                return self.private(f(*reals[0], **reals[1]))
        with private.DisableTorchFunction():
            return self.private(f(*unwrap(args), **unwrap(kwargs)))

    def private(self, t: Any) -> Any:
        """A tensor that belongs to this lane alone, as rows."""
        if not isinstance(t, Tensor):
            return t
        with private.DisableTorchFunction():
            meta = meta_of(tuple(t.shape), t.dtype, t.device, False)
            x = Lazy(self.take(meta.rows), meta, self.lane, None)
            self.exec.add_leaf(t.detach(), x.slot, meta)
        return x

    def input(self, t: Tensor, meta: Meta) -> Lazy:
        return Lazy(self.take(meta.rows), meta, self.lane, INPUT)


def _call_key(a: Any, ids: list[Any]) -> Any:
    if isinstance(a, Tensor):
        ids.append(a)
        return ("t", id(a), a._version)
    if type(a) in (tuple, list):
        return (type(a), tuple([_call_key(x, ids) for x in a]))
    if type(a) is dict:
        return tuple([(k, _call_key(v, ids)) for k, v in a.items()])
    return scalar_key(a)


def _tensors_in(out: Any) -> bool:
    return isinstance(out, Tensor) or (isinstance(out, (tuple, list)) and any(isinstance(o, Tensor) for o in out))


class _Hole:
    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k


def _hole(a: Any, found: list[Lazy]) -> Any:
    t = type(a)
    if t is Lazy:
        if type(a.extra) is Const:
            return a.extra.tensor
        found.append(a)
        return _Hole(len(found) - 1)
    if t is tuple or t is list:
        return t(_hole(x, found) for x in a)
    if t is dict:
        return {k: _hole(v, found) for k, v in a.items()}
    return a


def _plug(a: Any, xs: list[Tensor]) -> Any:
    t = type(a)
    if t is _Hole:
        return xs[a.k]
    if t is tuple or t is list:
        return t(_plug(x, xs) for x in a)
    if t is dict:
        return {k: _plug(v, xs) for k, v in a.items()}
    return a
