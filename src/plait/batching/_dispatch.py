"""Where a call on lazy tensors goes: tensor views, writes in place, host reads, random draws, and all pure ops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from greenlet import getcurrent
from torch import Tensor

from plait import _torch as private
from plait.batching._core_choice import Test, install
from plait.batching._current import Runtime, local
from plait.batching._lazy import INPUT, Alias, BatchError, Const, Lazy, Written, runtime
from plait.batching._meta import meta_of, row_meta

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

RENAMED = {
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "clip": "clamp",
    "__rpow__": "rpow",
    "__rsub__": "rsub",
    "__rdiv__": "rdiv",
    "__rtruediv__": "rdiv",
    "__rfloordiv__": "rfloor_divide",
    "__rmod__": "rremainder",
    "__rmatmul__": "rmatmul",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__matmul__": "matmul",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__pow__": "pow",
    "__neg__": "neg",
    "__abs__": "abs",
    "__invert__": "bitwise_not",
    "__add__": "add",
    "__radd__": "add",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__sub__": "sub",
    "__truediv__": "div",
    "__div__": "div",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__idiv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "_softmax": "softmax",
    "hardtanh_": "hardtanh_",
    "moveaxis": "movedim",
    "special_expit": "sigmoid",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
}
_SWAPPED = {
    "rsub": "sub",
    "rdiv": "div",
    "rpow": "pow",
    "rfloor_divide": "floor_divide",
    "rremainder": "remainder",
    "rmatmul": "matmul",
}

VIEWS = frozenset(
    {
        "view",
        "view_as",
        "reshape",
        "reshape_as",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "transpose",
        "permute",
        "t",
        "T",
        "mT",
        "H",
        "mH",
        "adjoint",
        "movedim",
        "expand",
        "expand_as",
        "broadcast_to",
        "narrow",
        "select",
        "__getitem__",
        "detach",
        "diagonal",
        "contiguous",
        "ravel",
        "unfold",
        "real",
        "chunk",
        "split",
        "unbind",
        "tensor_split",
        "split_with_sizes",
        "hsplit",
        "vsplit",
        "dsplit",
        "alias",
    }
)
MAYBE_COPY = frozenset({"reshape", "reshape_as", "flatten", "contiguous", "ravel"})

HOST = frozenset({"equal", "allclose", "is_nonzero", "is_same_size_value"})
ALONE = frozenset(
    {
        "nonzero",
        "masked_select",
        "unique",
        "unique_consecutive",
        "argwhere",
        "bincount",
        "histc",
        "combinations",
        "count_nonzero_dynamic",
    }
)
RANDOM = frozenset(
    {
        "rand",
        "randn",
        "randint",
        "randperm",
        "normal",
        "bernoulli",
        "multinomial",
        "poisson",
        "rand_like",
        "randn_like",
        "randint_like",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "feature_dropout",
        "native_dropout",
        "gumbel_softmax",
        "rrelu",
        "normal_",
        "uniform_",
        "exponential_",
        "random_",
        "bernoulli_",
        "geometric_",
        "cauchy_",
        "log_normal_",
        "binomial",
        "dropout_",
        "alpha_dropout_",
    }
)
_TRAINS = {
    "dropout": 2,
    "dropout1d": 2,
    "dropout2d": 2,
    "dropout3d": 2,
    "alpha_dropout": 2,
    "feature_alpha_dropout": 2,
    "rrelu": 3,
    "native_dropout": 2,
}
FACTORIES = frozenset(
    {
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "eye",
        "linspace",
        "logspace",
        "tensor",
        "as_tensor",
        "range",
        "scalar_tensor",
        "tril_indices",
        "triu_indices",
        "hann_window",
    }
)
NEW = {
    "new_zeros": "zeros",
    "new_ones": "ones",
    "new_empty": "empty",
    "new_full": "full",
    "new_tensor": "tensor",
}
LIKE = {"zeros_like": "zeros", "ones_like": "ones", "empty_like": "empty", "full_like": "full"}
REFUSED = {
    "backward": "call backward() on what plait.batch returns, outside of the function for one example",
    "register_hook": "register the hook on a parameter, or on what plait.batch returns",
    "retain_grad": "use torch.autograd.grad outside of plait.batch",
    "grad": "differentiate what plait.batch returns instead",
    "set_": "write x.copy_(value)",
    "resize_": "make a new tensor",
    "share_memory_": "do it outside of plait.batch",
    "data_ptr": "it has no memory yet",
    "storage": "it has no memory yet",
    "untyped_storage": "it has no memory yet",
    "__dlpack__": "it has no memory yet",
    "backward_": "",
}

# Names that mean something else (other arguments) in torch than in torch.nn.functional.
ONLY_F = frozenset(
    {
        "batch_norm",
        "instance_norm",
        "layer_norm",
        "group_norm",
        "rms_norm",
        "embedding",
        "embedding_bag",
        "dropout",
        "alpha_dropout",
        "feature_alpha_dropout",
        "bilinear",
        "cosine_similarity",
        "pairwise_distance",
        "pdist",
        "cosine_embedding_loss",
        "ctc_loss",
        "hinge_embedding_loss",
        "kl_div",
        "margin_ranking_loss",
        "poisson_nll_loss",
        "triplet_margin_loss",
        "binary_cross_entropy_with_logits",
        "grid_sample",
        "pixel_shuffle",
        "l1_loss",
        "mse_loss",
        "smooth_l1_loss",
        "huber_loss",
        "nll_loss",
        "cross_entropy",
        "pad",
    }
)

_CANON: dict[Any, str] = {}


def _fill_canon() -> None:
    for space in (torch, private.VariableFunctions, private.nn_functions, F, Tensor):
        for n in dir(space):
            if n in ONLY_F and space is not F:
                continue
            f = getattr(space, n, None)
            if callable(f) and not isinstance(f, type):
                try:
                    _CANON.setdefault(f, RENAMED.get(n, n))
                except TypeError:
                    continue
    for n in ("add", "sub", "mul", "div"):  # Tensor.__add__ and its like are wrappers of their own
        _CANON[getattr(Tensor, f"__{'truediv' if n == 'div' else n}__")] = n
    _CANON[Tensor.__getitem__] = "__getitem__"
    _CANON[Tensor.__setitem__] = "__setitem__"
    _CANON[torch.autograd.grad] = "grad"
    _CANON[torch.autograd.backward] = "backward"


_fill_canon()


def site() -> str:
    """`file:line` of the person's code that is running: in the function for one example, else the call of the batch."""
    above = getcurrent().parent
    for f in (sys._getframe(1), above.gr_frame if above is not None else None):
        while f is not None:
            name = f.f_globals.get("__name__", "")
            if not name.startswith(("plait.", "torch.")) and name not in ("plait", "torch"):
                return f"{f.f_code.co_filename}:{f.f_lineno}"
            f = f.f_back
    return ""


_OURS: dict[Any, bool] = {}


def site_key(above: int = 1) -> tuple[Any, int]:
    """Like `site`, but quick: the code object and the offset of the instruction; from that many frames above."""
    f: Any = sys._getframe(above)
    while f is not None:
        code = f.f_code
        ours = _OURS.get(code)
        if ours is None:
            name = f.f_globals.get("__name__", "")
            ours = _OURS[code] = name.startswith(("plait.", "torch.")) or name in ("plait", "torch")
        if not ours:
            return code, f.f_lasti
        f = f.f_back
    return None, 0


def refuse(what: str, instead: str) -> NoReturn:
    lane = local.rt.lane if local.rt is not None else -1
    who = f", example {lane}" if lane >= 0 else ""
    raise BatchError(f"{what} ({site() or 'unknown line'}{who}): {instead}")


def has_lazy(a: Any) -> bool:
    """True if a value that depends on the example is among the arguments (at any depth of lists and tuples)."""
    t = type(a)
    if t is Lazy:
        return type(a.extra) is not Const
    if t is tuple or t is list:
        return any(has_lazy(x) for x in a)
    if t is slice:
        return has_lazy(a.start) or has_lazy(a.stop) or has_lazy(a.step)
    if t is dict:
        return any(has_lazy(x) for x in a.values())
    return isinstance(a, Lazy) if isinstance(a, Tensor) else False


def unwrap(a: Any) -> Any:
    """The same arguments with constants as the tensors they are."""
    t = type(a)
    if t is Lazy and type(a.extra) is Const:
        return a.extra.tensor
    if t is tuple or t is list:
        return t(unwrap(x) for x in a)
    if t is dict:
        return {k: unwrap(x) for k, x in a.items()}
    return a


def torch_function(func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Entry for everything that reaches PyTorch while a lane or a trace runs."""
    rt = local.rt
    if rt is None:
        if has_lazy(args) or has_lazy(kwargs):
            runtime()
        return func(*unwrap(args), **unwrap(kwargs))
    name = _CANON.get(func)
    if name is None:
        inner = getattr(func, "__name__", "")
        if inner in ("__get__", "__set__", "__delete__"):
            return _attribute(func, inner, args)
        return call(func, args, kwargs)
    return call(name, args, kwargs, func)


def _attribute(func: Any, kind: str, args: Args) -> Any:
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if args and type(args[0]) is Lazy:
        if kind == "__get__":
            return getattr(args[0], name)
        setattr(args[0], name, *args[1:])
        return None
    if kind == "__set__" and name not in ("grad", "requires_grad"):
        refuse(f"`.{name} = ` on a tensor that all examples share", "do it outside of plait.batch")
    if kind == "__get__" and name in ("T", "mT", "H", "mH", "data", "real", "imag"):
        return plain(runtime(), "detach" if name == "data" else name, func, args, {})
    return func(*args)


def unsupported_attribute(x: Lazy, name: str) -> Any:
    if name in ("H", "mH", "real"):
        return call(name, (x,), {})
    if name in (
        "itemsize",
        "nbytes",
        "is_cpu",
        "output_nr",
        "_version",
        "is_vulkan",
        "is_ipu",
        "is_maia",
        "is_mtia",
    ):
        return getattr(torch.empty(x.meta.shape, dtype=x.meta.dtype), name)
    return refuse(f"`.{name}` of a value inside plait.batch", "it has no such attribute before it is computed")


def call(name: Any, args: Args, kwargs: Kwargs, func: Any = None) -> Any:
    """One call on lazy or shared tensors, by canonical name (or the function itself where it has none)."""
    rt = runtime()
    if type(name) is not str:
        return _opaque(rt, name, args, kwargs)
    name = RENAMED.get(name, name)
    if name in _SWAPPED:
        name, args = _SWAPPED[name], (args[1], args[0], *args[2:])
    special = SPECIAL.get(name)
    if special is not None:
        return special(rt, args, kwargs)
    if name in _TRAINS and name != "rrelu" and _deterministic(name, args, kwargs):
        return args[0]
    if name in RANDOM and not _deterministic(name, args, kwargs):
        return rt.random(name, func, args, kwargs)
    if "out" in kwargs and kwargs["out"] is not None:
        return _out(rt, name, args, kwargs, func)
    if name[-1] == "_" and name[-2] != "_" and args and isinstance(args[0], Tensor):
        return _inplace(rt, name, args, kwargs, func)
    if not (has_lazy(args) or has_lazy(kwargs)):
        return plain(rt, name, func, args, kwargs)
    if name in REFUSED:
        refuse(f"`{name}` inside plait.batch", REFUSED[name])
    if name in ALONE:
        return rt.alone(name, func or function_of(name), args, kwargs)
    if name in HOST:
        return function_of(name)(*rt.reals(args), **rt.reals(kwargs))
    if name in VIEWS:
        return view(rt, name, args, kwargs)
    try:
        return rt.emit(name, args, kwargs)
    except NotImplementedError:
        why = "PyTorch cannot tell the shape of its result without the numbers"
        return rt.alone(name, func or function_of(name), args, kwargs, why)


METHODS = VIEWS | {
    "flip",
    "repeat",
    "tile",
    "permute",
    "movedim",
}  # methods take dimensions one by one, functions do not


def function_of(name: str) -> Callable[..., Any]:
    if name in METHODS and callable(getattr(Tensor, name, None)):
        return getattr(Tensor, name)  # type: ignore[no-any-return]
    for space in (F,) if name in ONLY_F else (torch, Tensor, F, private.nn_functions):
        f = getattr(space, name, None)
        if callable(f):
            return f  # type: ignore[no-any-return]
    if name in ("T", "mT", "H", "mH"):
        return lambda x: getattr(x, name)
    raise BatchError(f"plait.batch does not know {name!r}")


def _opaque(rt: Runtime, func: Any, args: Args, kwargs: Kwargs) -> Any:
    n = getattr(func, "__name__", "")
    if not (has_lazy(args) or has_lazy(kwargs)):
        return plain(rt, n, func, args, kwargs)
    if func is torch.cond or n in ("cond", "while_loop"):
        refuse(
            f"torch.{n} inside plait.batch",
            "write an ordinary Python `if` or `while`; every example takes its own arm",
        )
    return rt.emit(func, args, kwargs)


# ---------------------------------------------------------------------- values that no example changes
def plain(rt: Runtime, name: str, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call without any value of an example: computed once, the same for all lanes."""
    f = func if func is not None else function_of(name)
    if name in ("requires_grad_", "backward", "grad", "set_", "resize_"):
        refuse(f"`{name}` on a tensor that all examples share", "do it outside of the function for one example")
    return rt.shared_call(name, f, unwrap(args), unwrap(kwargs))


def shared_source(t: Tensor) -> str:
    return f"a tensor of shape {list(t.shape)} that all examples share"


# ---------------------------------------------------------------------- writes in place
def _out(rt: Runtime, name: str, args: Args, kwargs: Kwargs, func: Any) -> Any:
    out = kwargs["out"]
    rest = {k: v for k, v in kwargs.items() if k != "out"}
    if type(out) is not Lazy:
        refuse(f"`{name}(out=...)` into a tensor that all examples share", "use the returned value instead")
    if not (has_lazy(args) or has_lazy(rest)):
        res = plain(rt, name, func, args, rest)
    else:
        res = call(name, args, rest, func)
    write(rt, out, res)
    return out


def _inplace(rt: Runtime, name: str, args: Args, kwargs: Kwargs, func: Any) -> Any:
    x = args[0]
    if type(x) is not Lazy:
        if name in ("requires_grad_", "share_memory_", "pin_memory_"):
            refuse(f"`{name}` on a tensor that all examples share", "do it outside of plait.batch")
        refuse(
            f"`{name}` writes to {rt.name_of(x)}",
            "every example would change it for the others; return the new value instead, or clone the tensor first",
        )
    if name in REFUSED:
        refuse(f"`{name}` inside plait.batch", REFUSED[name])
    base = name[:-1]
    if base == "zero":
        new: Any = call("zeros_like", (x,), {})
    elif base == "fill" or base == "copy":
        new = args[1]
    elif base == "index_put":
        new = rt.emit("index_put", args, kwargs)
    else:
        new = call(base, args, kwargs)
    if isinstance(new, Tensor) and base not in ("copy", "fill") and tuple(new.shape) != tuple(x.meta.shape):
        if base in ("unsqueeze", "squeeze", "transpose", "t", "swapaxes", "swapdims"):
            refuse(f"`{name}` on a value inside plait.batch", f"write x = x.{base}(...)")
        raise RuntimeError(
            f"output with shape {list(x.meta.shape)} doesn't match the broadcast shape {list(new.shape)}"
        )
    if isinstance(new, Tensor) and not torch.can_cast(new.dtype, x.meta.dtype):
        raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {x.meta.dtype}")
    write(rt, x, new)
    return x


def write(rt: Runtime, x: Lazy, value: Any) -> None:
    """`x[...] = value`, seen by x, by what x is a tensor view of, and by every other view of that."""
    fresh(rt, x)
    if x.meta.tracks and torch.is_grad_enabled() and x.extra is INPUT:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    e = x.extra
    root = e.root if type(e) is Alias else e if type(e) is Lazy else x
    if root.extra is INPUT:
        refuse("the function writes in place to an example that it was given", "clone it first: x = x.clone()")
    if type(root.extra) is Const and root.extra.source is not None:
        refuse(
            f"the function writes in place to {root.extra.source}",
            "every example would change it for the others; clone it first",
        )
    if type(root.extra) is Const:
        rt.own(root)
    new = rt.emit("assign", (x, value), {})
    if root is not x:
        chain = e.chain if type(e) is Alias else _row_chain(x, root)
        if any(c[0] in MAYBE_COPY for c in chain):
            refuse(
                "a write in place through reshape, flatten or contiguous, which may or may not copy",
                "write to the original tensor, or use view()",
            )
        if any(c[0] == "detach" for c in chain):
            refuse("a write in place through detach() or .data", "write x.copy_(value) under torch.no_grad()")
        seen = root.extra.version + 1 if type(root.extra) is Written else 1
        _rebind(root, rt.emit("view_scatter", (root, new, chain), {}))
        x.extra = Alias(root, chain, seen)
        x.slot, x.meta = new.slot, new.meta
    else:
        _rebind(x, new)


def _rebind(root: Lazy, new: Lazy) -> None:
    e = root.extra
    if type(e) is Written:
        root.extra = Written(e.slot, e.version + 1)
    else:
        root.extra = Written(root.slot, 1)
    root.slot, root.meta = new.slot, new.meta


def _row_chain(x: Lazy, root: Lazy) -> tuple[Any, ...]:
    first = root.extra.slot if type(root.extra) is Written else root.slot
    off = x.slot - first
    if x.meta.lead and len(x.meta.shape) == len(root.meta.shape):
        return (("narrow", (0, off, x.meta.rows), ()),)
    return (("select", (0, off), ()),)


def fresh(rt: Runtime, x: Lazy) -> None:
    """Looks again through a tensor view whose value was written since."""
    e = x.extra
    if type(e) is Test:
        t = rt.emit(e.name, (e.value, e.other), {})
        x.slot, x.meta, x.extra = t.slot, t.meta, None
        return
    if type(e) is Lazy:
        if type(e.extra) is not Written:
            return
        e = x.extra = Alias(e, _row_chain(x, e), 0)
    if type(e) is Alias:
        w = e.root.extra
        if type(w) is Written and w.version != e.seen:
            if any(c[0] in MAYBE_COPY for c in e.chain):
                refuse(
                    "a value was written in place after reshape, flatten or contiguous made another name for it, which "
                    "may or may not be a copy",
                    "use view() or clone()",
                )
            y = e.root
            before = torch.is_grad_enabled()
            torch._C._set_grad_enabled(e.grad)  # a view keeps the mode in which it was taken
            try:
                for n, a, k in e.chain:
                    y = rt.emit(n, (y, *a), dict(k))
            finally:
                torch._C._set_grad_enabled(before)
            x.slot, x.meta = y.slot, y.meta if e.grad else y.meta.detached()
            e.seen = w.version


# ---------------------------------------------------------------------- tensor views
def view(rt: Runtime, name: str, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy or type(x.extra) is Const:
        return rt.emit(name, args, kwargs)
    if x.extra is not None and x.extra is not INPUT:
        fresh(rt, x)
    if any(has_lazy(a) for a in args[1:]) and name not in ("view_as", "reshape_as", "expand_as"):
        if name == "__getitem__":
            return _index(rt, x, args[1])
        return rt.emit(name, args, kwargs)
    if name == "__getitem__" and _advanced(args[1]):
        return _index(rt, x, args[1])
    out = rt.rows_view(name, x, args[1:], kwargs) if not rt.tracing else None
    if out is not None:
        return out
    if name in ("view_as", "reshape_as", "expand_as"):
        name, args = name[:-3], (x, tuple(args[1].shape))
    if name in ("split", "chunk", "unbind", "tensor_split", "split_with_sizes", "hsplit", "vsplit", "dsplit"):
        return _parts(rt, name, x, args, kwargs)
    if name == "detach" and not rt.tracing:
        out = Lazy(x.slot, x.meta.detached(), x.lane, None)
    else:
        out = rt.emit(name, args, kwargs)
    if type(out) is Lazy and out.extra is None and out is not x:
        e = x.extra
        step = (name, tuple(args[1:]), tuple(kwargs.items()))
        if type(e) is Alias:
            out.extra = Alias(e.root, (*e.chain, step), e.seen, torch.is_grad_enabled())
        elif type(e) is Lazy:
            out.extra = Alias(e, (*_row_chain(x, e), step), 0, torch.is_grad_enabled())
        else:
            out.extra = Alias(x, (step,), e.version if type(e) is Written else 0, torch.is_grad_enabled())
    return out


def _parts(rt: Runtime, name: str, x: Lazy, args: Args, kwargs: Kwargs) -> Any:
    """Several tensor views at once."""
    outs = rt.emit(name, args, kwargs)
    e = x.extra
    root, chain, seen = (
        (e.root, e.chain, e.seen)
        if type(e) is Alias
        else (e, _row_chain(x, e), 0)
        if type(e) is Lazy
        else (x, (), e.version if type(e) is Written else 0)
    )
    rank = len(x.meta.shape)
    if name == "unbind":
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % rank
    else:
        given: Any = args[2] if len(args) > 2 else kwargs.get("dim", 0)
        dim = int({"hsplit": 1 if rank > 1 else 0, "vsplit": 0, "dsplit": 2}.get(name, given)) % rank
    at = 0
    grad = torch.is_grad_enabled()
    for k, out in enumerate(outs):
        if name == "unbind":
            step: Any = ("select", (dim, k), ())
        else:
            n = out.meta.shape[dim]
            step = ("narrow", (dim, at, n), ())
            at += n
        if type(out) is Lazy:
            out.extra = Alias(root, (*chain, step), seen, grad)
    return outs


def _advanced(i: Any) -> bool:
    if isinstance(i, tuple):
        return any(_advanced(k) for k in i)
    return isinstance(i, (list, Tensor)) or type(i).__name__ == "ndarray"


def _spelled_out(index: Args, rank: int) -> Args:
    """The same index without `...` and without the full slices at its end, so that rows are seen to be rows."""
    at = [k for k, p in enumerate(index) if p is Ellipsis]
    missing = rank - sum(p is not None and p is not Ellipsis for p in index)
    if len(at) > 1 or missing < 0 or any(isinstance(p, bool) for p in index):
        return index
    for k in at:
        index = (*index[:k], *(slice(None),) * missing, *index[k + 1 :])
    while len(index) > 1 and type(index[-1]) is slice and index[-1] == slice(None):
        index = index[:-1]
    return index


def _is_mask(i: Any) -> bool:
    if isinstance(i, tuple):
        return any(_is_mask(k) for k in i)
    if isinstance(i, Tensor):
        return i.dtype in (torch.bool, torch.uint8)
    return isinstance(i, list) and any(isinstance(k, bool) for k in i)


def _index(rt: Runtime, x: Lazy, index: Any) -> Any:
    if isinstance(index, Tensor) and index.dim() == 0 and not _is_mask(index) and has_lazy(index):
        # x[i] with a 0-d integer tensor: PyTorch reads it, and gives a tensor view
        return view(rt, "select", (x, 0, int(index)), {})
    if isinstance(index, slice) or (
        isinstance(index, tuple) and any(isinstance(k, slice) and has_lazy(k) for k in index)
    ):
        parts = index if isinstance(index, tuple) else (index,)
        known = tuple(
            slice(*(None if v is None else int(v) for v in (k.start, k.stop, k.step))) if isinstance(k, slice) else k
            for k in parts
        )
        return view(rt, "__getitem__", (x, known), {})
    if _is_mask(index):
        return rt.alone("__getitem__", Tensor.__getitem__, (x, index), {})
    return rt.emit("__getitem__", (x, index), {})


def _setitem(rt: Runtime, args: Args, kwargs: Kwargs) -> None:
    x, index, value = args
    if type(x) is not Lazy and (has_lazy(index) or has_lazy(value) or isinstance(x, Tensor)):
        refuse(
            f"`[...] = ` writes to {rt.name_of(x)}",
            "make the tensor inside the function for one example, or return the values and write them outside",
        )
    fresh(rt, x)
    if type(x.extra) is Const and not _advanced(index) and x.extra.source is None:
        rt.own(x)
    if _advanced(index):
        parts = index if isinstance(index, tuple) else (index,)
        if (
            isinstance(index, Tensor)
            and index.dtype == torch.bool
            and not (isinstance(value, Tensor) and value.dim() > 0)
        ):
            mask = (
                index
                if index.dim() == x.meta.shape.__len__()
                else index.reshape(tuple(index.shape) + (1,) * (len(x.meta.shape) - index.dim()))
            )
            new = call("where", (mask, value, x), {})
            write(rt, x, new)
            return
        if all(isinstance(k, (Tensor, list)) for k in parts):
            idx = tuple(torch.tensor(k) if isinstance(k, list) else k for k in parts)
            v = value if isinstance(value, Tensor) else torch.tensor(value, dtype=x.meta.dtype)
            if isinstance(v, Tensor) and v.dtype != x.meta.dtype:
                v = call("to", (v, x.meta.dtype), {})
            write(rt, x, rt.emit("index_put", (x, idx, v), {}))
            return
        refuse("an assignment with this mix of indices", "split it into two assignments, or use torch.where")
    if isinstance(index, (slice, tuple)) and has_lazy(index):
        index = tuple(
            int(k)
            if isinstance(k, Lazy)
            else slice(*(None if v is None else int(v) for v in (k.start, k.stop, k.step)))
            if isinstance(k, slice)
            else k
            for k in (index if isinstance(index, tuple) else (index,))
        )
    target = view(rt, "__getitem__", (x, index), {})
    if isinstance(value, Tensor):
        extra = len(value.shape) - len(target.meta.shape)
        if extra > 0 and all(s == 1 for s in value.shape[:extra]):
            value = call("reshape", (value, tuple(value.shape)[extra:]), {})
    write(rt, target, value)


# ---------------------------------------------------------------------- by name
def traced_shape(rt: Any, x: Lazy) -> Any:
    from plait.batching._trace import RaggedDim

    if rt.is_ragged(x) and rt.strict:
        return (RaggedDim(x.meta.shape[0]), *x.meta.shape[1:])
    return x.meta.shape


def traced_len(rt: Any, x: Lazy) -> int:
    from plait.batching._trace import Abort

    if rt.is_ragged(x) and rt.strict:
        raise Abort
    return x.meta.shape[0]


def _size(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    shape = args[0].shape
    d = args[1] if len(args) > 1 else kwargs.get("dim")
    return shape if d is None else shape[d]


def _deterministic(name: str, args: Args, kwargs: Kwargs) -> bool:
    k = _TRAINS.get(name)
    if k is None:
        return False
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    t = args[k] if len(args) > k else kwargs.get("training", name != "rrelu")
    return not t or (p == 0 and name != "rrelu")


def _detach(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy or type(x.extra) is Const:
        return plain(rt, "detach", Tensor.detach, args, kwargs)
    return view(rt, "detach", args, kwargs)


def _requires_grad(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    want = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if type(x) is Lazy and bool(want) == x.meta.tracks:
        return x
    return refuse(
        "`requires_grad_` inside plait.batch",
        "mark the examples or parameters before the call, or use detach()",
    )


def _new(kind: str) -> Callable[[Runtime, Args, Kwargs], Any]:
    def make(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x, rest = args[0], args[1:]
        kwargs = {k: v for k, v in kwargs.items() if k not in ("memory_format",)}
        kwargs.setdefault("dtype", x.dtype)
        if kwargs["dtype"] is None:
            kwargs["dtype"] = x.dtype
        if kwargs.get("device") is None:
            kwargs["device"] = x.device
        return call(kind, rest, kwargs, getattr(torch, kind))

    return make


def _like(kind: str) -> Callable[[Runtime, Args, Kwargs], Any]:
    def make(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        if type(x) is not Lazy:
            return plain(rt, f"{kind}_like", getattr(torch, f"{kind}_like"), args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k != "memory_format"}
        return _new(kind)(rt, (x, tuple(x.meta.shape), *args[1:]), kwargs)

    return make


def _same(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    return args[0]


def _to(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is not Lazy:
        return plain(rt, "to", Tensor.to, args, kwargs)
    dtype, device, copy = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("copy", False)
    for a in args[1:]:
        if isinstance(a, torch.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, (str, torch.device, int)) and not isinstance(a, bool):
            device = a
    if device is not None and torch.device(device).type != x.meta.device.type:
        refuse("a move to another device inside plait.batch", "move the model and the examples before the call")
    if dtype is None or dtype == x.meta.dtype:
        return rt.emit("clone", (x,), {}) if copy else x
    return rt.emit("to_dtype", (x, dtype), {})


def _cast(dtype: torch.dtype) -> Callable[[Runtime, Args, Kwargs], Any]:
    return lambda rt, args, kwargs: _to(rt, (args[0], dtype), {})


def _numel(rt: Runtime, args: Args, kwargs: Kwargs) -> int:
    n = 1
    for s in args[0].shape:
        n = n * s
    return n


def _method(name: str) -> Callable[[Runtime, Args, Kwargs], Any]:
    def read(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        if type(x) is Lazy:
            return getattr(Lazy, name)(x, *args[1:], **kwargs)
        with private.DisableTorchFunction():
            return getattr(Tensor, name)(*args, **kwargs)

    return read


def _index_scalar(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    x = args[0]
    if type(x) is Lazy and type(x.extra) is not Const:
        if type(args[1]) is int and rt.core is not None and (x.extra is None or x.extra is INPUT):
            out = rt.core.call("__getitem__", None, args)  # x[i] seen before, not a row
            if out is not NotImplemented:
                out.extra = Alias(x, (("__getitem__", (args[1],), ()),), 0, torch.is_grad_enabled())
                return out
        index = args[1]
        if type(index) is tuple and not _advanced(index):
            index = _spelled_out(index, len(x.meta.shape))
        return view(rt, "__getitem__", (x, index), kwargs)
    if not has_lazy(args[1]):
        return plain(rt, "__getitem__", Tensor.__getitem__, args, kwargs)
    i = args[1]
    if isinstance(i, Tensor) and not _is_mask(i) and i.dim() > 0:
        return rt.emit("table_lookup", (i, unwrap(x)), {})
    if isinstance(i, Tensor) and not _is_mask(i):
        return rt.emit("table_lookup", (i, unwrap(x)), {})
    return rt.alone("__getitem__", Tensor.__getitem__, (unwrap(x), i), {})


def _where(rt: Runtime, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 1 and not kwargs and has_lazy(args):
        return rt.alone("where", torch.where, args, kwargs)
    if not has_lazy(args):
        return plain(rt, "where", torch.where, args, kwargs)
    if isinstance(args[0], Tensor) and hasattr(Tensor, "where") and args[0].dtype != torch.bool and len(args) == 3:
        args = (args[1], args[0], args[2])  # the method: x.where(condition, other)
    return rt.emit("where", args, kwargs)


SPECIAL: dict[str, Callable[[Runtime, Args, Kwargs], Any]] = {
    "__setitem__": _setitem,
    "__getitem__": _index_scalar,
    "size": _size,
    "dim": lambda rt, a, k: len(a[0].shape),
    "numel": _numel,
    "nelement": _numel,
    "ndimension": lambda rt, a, k: len(a[0].shape),
    "detach": _detach,
    "requires_grad_": _requires_grad,
    "to": _to,
    "type_as": lambda rt, a, k: _to(rt, (a[0], a[1].dtype), {}),
    "float": _cast(torch.float32),
    "double": _cast(torch.float64),
    "half": _cast(torch.float16),
    "bfloat16": _cast(torch.bfloat16),
    "long": _cast(torch.int64),
    "int": _cast(torch.int32),
    "bool": _cast(torch.bool),
    "short": _cast(torch.int16),
    "char": _cast(torch.int8),
    "byte": _cast(torch.uint8),
    "cpu": lambda rt, a, k: _to(rt, (a[0], "cpu"), {}),
    "cuda": lambda rt, a, k: _to(rt, (a[0], "cuda"), {}),
    "item": _method("item"),
    "tolist": _method("tolist"),
    "numpy": _method("numpy"),
    "__array__": _method("__array__"),
    "__bool__": _method("__bool__"),
    "__float__": _method("__float__"),
    "__int__": _method("__int__"),
    "__index__": _method("__index__"),
    "__len__": _method("__len__"),
    "__repr__": _method("__repr__"),
    "__format__": _method("__format__"),
    "__contains__": _method("__contains__"),
    "__iter__": _method("__iter__"),
    "is_floating_point": lambda rt, a, k: a[0].dtype.is_floating_point,
    "is_complex": lambda rt, a, k: a[0].dtype.is_complex,
    "is_contiguous": lambda rt, a, k: True,
    "is_tensor": lambda rt, a, k: True,
    "get_device": lambda rt, a, k: -1 if a[0].device.type == "cpu" else a[0].device.index,
    "element_size": lambda rt, a, k: a[0].dtype.itemsize,
    "is_same_size": lambda rt, a, k: a[0].shape == a[1].shape,
    "is_inference": lambda rt, a, k: False,
    "is_signed": lambda rt, a, k: a[0].dtype.is_signed,
    "requires_grad": lambda rt, a, k: a[0].requires_grad,
    "where": _where,
    "requires_grad.__get__": _same,
    "is_shared": lambda rt, a, k: False,
    "is_pinned": lambda rt, a, k: False,
    "is_conj": lambda rt, a, k: False,
    "is_neg": lambda rt, a, k: False,
    "__deepcopy__": lambda rt, a, k: rt.emit("clone", (a[0],), {}),
    **{k: _new(v) for k, v in NEW.items()},
    **{k: _like(v) for k, v in LIKE.items()},
}

__all__ = [
    "call",
    "fresh",
    "has_lazy",
    "meta_of",
    "refuse",
    "row_meta",
    "torch_function",
    "unwrap",
    "view",
    "write",
]

_SLOW = frozenset(SPECIAL) | VIEWS | RANDOM | HOST | ALONE | frozenset(REFUSED) | FACTORIES
FAST: dict[Any, str] = {
    f: n
    for f, n in _CANON.items()
    if n not in _SLOW and n not in _SWAPPED and not n.endswith("_") and not n.startswith("_")
}

install(FAST, torch_function, _OURS, site_key)
