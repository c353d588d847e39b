"""The tensor that one example's code sees: shape and dtype are known, the numbers come later."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from struct import pack, unpack
from typing import Any, NoReturn

import torch
from torch import Tensor

from plait import _torch as private
from plait._errors import PlaitError
from plait.batching._core_choice import NATIVE, LazyBase, Test
from plait.batching._current import Runtime, local
from plait.batching._marks import INPUT, Alias, Const
from plait.batching._meta import Meta


class BatchError(PlaitError):
    """`plait.batch` cannot run this code; the message says where and what to write instead."""


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def answer(test: Test) -> bool:
    """What an `if` learns, as the tensor comparison would say it: the number in the tensor's own precision."""
    v, c = _number(test.value), test.other
    if test.value.meta.number == 1 and type(c) is float:
        c = unpack("f", pack("f", c))[0] if -3e38 < c < 3e38 else c
    return bool(_COMPARE[test.name](v, c))


def runtime() -> Runtime:
    rt = local.rt
    if rt is None:
        raise BatchError(
            "a value of one example was used after plait.batch had returned; return it from the function instead of "
            "keeping it in a list, an attribute or a global"
        )
    return rt


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    from plait.batching._dispatch import call

    return call(name, args, kwargs)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def op(self: Lazy, other: Any) -> Any:
        rt = local.rt
        return (rt or runtime()).emit(name, (self, other), {})

    return op


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def op(self: Lazy, other: Any) -> Any:
        return runtime().emit(name, (other, self), {})

    return op


def _unary(name: str) -> Callable[[Any], Any]:
    def op(self: Lazy) -> Any:
        return runtime().emit(name, (self,), {})

    return op


def _inplace(name: str) -> Callable[[Any, Any], Any]:
    def op(self: Lazy, other: Any) -> Any:
        return _call(name, self, other)

    return op


class Lazy(LazyBase):
    """Stands for a `torch.Tensor` inside `plait.batch`; `isinstance(x, torch.Tensor)` holds."""

    __slots__ = ()
    meta: Meta

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from plait.batching._dispatch import torch_function

        return torch_function(func, args, kwargs or {})

    # ------------------------------------------------------------------ known without computing
    @property
    def shape(self) -> torch.Size:
        rt = local.rt
        if rt is not None and rt.tracing:
            from plait.batching._trace import traced_shape

            return traced_shape(rt, self)  # type: ignore[no-any-return]
        return self.meta.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.meta.dtype

    @property
    def device(self) -> torch.device:
        return self.meta.device

    @property
    def ndim(self) -> int:
        return len(self.meta.shape)

    def dim(self) -> int:
        return len(self.meta.shape)

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        shape = self.shape
        return shape if dim is None else shape[dim]

    @property
    def requires_grad(self) -> bool:
        return self.meta.tracks

    @property
    def layout(self) -> torch.layout:
        return torch.strided

    @property
    def is_leaf(self) -> bool:
        return not self.meta.tracks

    @property
    def grad(self) -> None:
        return None

    @property
    def grad_fn(self) -> None:
        return None

    @property
    def is_cuda(self) -> bool:
        return self.meta.device.type == "cuda"

    is_sparse = is_quantized = is_nested = is_mkldnn = is_meta = is_mps = is_xpu = False
    names = None

    @property
    def T(self) -> Any:
        return _call("T", self)

    @property
    def mT(self) -> Any:
        return _call("mT", self)

    @property
    def data(self) -> Any:
        return _call("detach", self)

    @data.setter
    def data(self, value: Any) -> NoReturn:
        raise BatchError("`.data = ` is not possible inside plait.batch; write x.copy_(value) under torch.no_grad()")

    def __len__(self) -> int:
        if not self.meta.shape:
            raise TypeError("len() of a 0-d tensor")
        return len_of(self)

    # ------------------------------------------------------------------ values read by the program
    def _truth(self) -> bool:
        if type(self.extra) is Test:
            return _logged(answer(self.extra))  # type: ignore[no-any-return]
        n = self.meta.numel
        if n != 1:
            raise RuntimeError(
                "Boolean value of Tensor with more than one value is ambiguous"
                if n
                else "Boolean value of Tensor with no values is ambiguous"
            )
        return bool(_logged(bool(_number(self))))

    def __int__(self) -> int:
        return int(_logged(int(_number(self))))

    def __index__(self) -> int:
        if self.meta.dtype.is_floating_point or self.meta.dtype.is_complex:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(_logged(int(_number(self))))

    def __float__(self) -> float:
        return float(_logged(float(_number(self))))

    def __complex__(self) -> complex:
        return complex(_number(self))

    def _only(self) -> Any:
        return _logged(_number(self))

    def _tolist(self) -> Any:
        return _logged(runtime().read(self))

    def __repr__(self, **kw: Any) -> str:
        if local.rt is None or local.rt.tracing:
            return f"<value of plait.batch {self.meta}>"
        return _of_real(self, repr)  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return _of_real(self, lambda t: format(t, spec))  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        a = _of_real(self, lambda t: t.detach().numpy())
        a.flags.writeable = False  # a write would not reach the value, as it does in PyTorch
        return a if dtype is None else a.astype(dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _of_real(self, lambda t: t.__reduce_ex__(protocol))  # type: ignore[no-untyped-call]

    def __copy__(self) -> Any:
        return _call("detach", self)  # a copy is a tensor of its own, without a way back

    def numpy(self, *, force: bool = False) -> Any:
        if self.meta.tracks and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self.__array__()

    # ------------------------------------------------------------------ indexing
    def _item(self, index: Any) -> Any:
        rt = local.rt
        if rt is not None and rt.core is not None:  # x[t] is a name for a row, no call
            row = rt.core.one_row(self, index)
            if row is not NotImplemented:
                return row
            if type(index) is int and (self.extra is None or self.extra is INPUT):
                element = rt.core.call("__getitem__", None, (self, index))  # seen before: a view, if it is written
                if element is not NotImplemented:
                    element.extra = Alias(self, (("__getitem__", (index,), ()),), 0, torch.is_grad_enabled())
                    return element
        return _call("__getitem__", self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _call("__setitem__", self, index, value)

    def _unbound(self) -> Iterator[Any]:
        if not self.meta.shape:
            raise TypeError("iteration over a 0-d tensor")
        rt = local.rt
        if rt is not None and rt.core is not None:
            rows = rt.core.all_rows(self)
            if rows is not NotImplemented:
                return iter(rows)
        return iter(_call("unbind", self, 0))

    def __reversed__(self) -> Any:
        return _call("flip", self, 0) if self.meta.shape else self

    def __contains__(self, other: Any) -> bool:
        return bool((self == other).any())

    def __deepcopy__(self, memo: Any) -> Any:
        return _call("clone", _call("detach", self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__rpow__",):
            raise AttributeError(name)
        what = getattr(Tensor, name)
        if not callable(what):
            from plait.batching._dispatch import unsupported_attribute

            return unsupported_attribute(self, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return _call(name, self, *args, **kwargs)

        return method

    # ------------------------------------------------------------------ operators
    __floordiv__ = _binary("floor_divide")
    __rfloordiv__ = _reflected("floor_divide")
    __mod__ = _binary("remainder")
    __rmod__ = _reflected("remainder")
    __pow__ = _binary("pow")
    __rpow__ = _reflected("pow")
    __rmatmul__ = _reflected("matmul")
    __and__ = __rand__ = _binary("bitwise_and")
    __or__ = __ror__ = _binary("bitwise_or")
    __xor__ = __rxor__ = _binary("bitwise_xor")
    __lshift__ = _binary("bitwise_left_shift")
    __rshift__ = _binary("bitwise_right_shift")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_not")
    __iadd__ = _inplace("add_")
    __isub__ = _inplace("sub_")
    __imul__ = _inplace("mul_")
    __itruediv__ = _inplace("div_")
    __ifloordiv__ = _inplace("floor_divide_")
    __imod__ = _inplace("remainder_")
    __ipow__ = _inplace("pow_")
    __iand__ = _inplace("bitwise_and_")
    __ior__ = _inplace("bitwise_or_")
    __ixor__ = _inplace("bitwise_xor_")

    # ------------------------------------------------------------------ what the compiled core has short cuts for
    def _operate(self, name: str, operands: tuple[Any, ...]) -> Any:
        return runtime().emit(name, operands, {})

    def _compare(self, name: str, other: Any) -> Any:
        if name == "eq" or name == "ne":
            known = isinstance(other, (Tensor, int, float, complex, bool))
            return runtime().emit(name, (self, other), {}) if known else name == "ne"
        rt = local.rt
        m, e = self.meta, self.extra
        if (
            rt is not None
            and rt.core is not None
            and (type(other) is int or (type(other) is float and m.number < 3))
            and m.number
            and self.lane == rt.lane
            and (e is None or e is INPUT or type(e) is Const or (type(e) is Lazy and e.extra in (None, INPUT)))
        ):
            frozen = Lazy(self.slot, m, self.lane, e if e is INPUT or type(e) is Const else None)
            return Lazy(-1, m.truth, self.lane, Test(name, frozen, other))
        return (rt or runtime()).emit(name, (self, other), {})


def _slots() -> dict[str, Any]:
    """The methods that the compiled core has as slots of its type."""

    def binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
        return lambda a, b: a._operate(name, (b, a) if swapped else (a, b))

    def compare(name: str) -> Callable[[Any, Any], Any]:
        return lambda a, b: a._compare(name, b)

    made: dict[str, Any] = {
        "__add__": binary("add"), "__radd__": binary("add"), "__mul__": binary("mul"), "__rmul__": binary("mul"),
        "__sub__": binary("sub"), "__rsub__": binary("sub", True), "__truediv__": binary("div"),
        "__rtruediv__": binary("div", True), "__matmul__": binary("matmul"), "__rmatmul__": binary("matmul", True),
        "__neg__": lambda a: a._operate("neg", (a,)), "__bool__": lambda a: a._truth(), "__hash__": lambda a: id(a),
        "__iter__": lambda a: a._unbound(), "__getitem__": lambda a, index: a._item(index),
        "item": lambda a: a._only(), "tolist": lambda a: a._tolist(),
    }  # fmt: skip
    return made | {f"__{name}__": compare(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}


if not NATIVE:
    for _name, _method in _slots().items():
        setattr(Lazy, _name, _method)


def len_of(x: Lazy) -> int:
    from plait.batching._trace import traced_len

    rt = local.rt
    return traced_len(rt, x) if rt is not None and rt.tracing else x.meta.shape[0]


def _logged(v: Any) -> Any:
    rt = local.rt
    if rt is not None and rt.log is not None:
        rt.log[rt.example].append(v)
    return v


def _number(x: Lazy) -> Any:
    if x.meta.numel != 1:
        raise RuntimeError(f"a Tensor with {x.meta.numel} elements cannot be converted to Scalar")
    v = runtime().read(x)
    while type(v) is list:
        v = v[0]
    return v


def _of_real(x: Lazy, f: Callable[[Tensor], Any]) -> Any:
    """What `f` says of the numbers."""
    t = real(x)
    with private.DisableTorchFunction():
        return f(t)


def real(x: Lazy) -> Tensor:
    """The numbers of one example as an ordinary tensor of its own."""
    v = runtime().read(x)
    with private.DisableTorchFunction():
        t = torch.tensor(v, dtype=x.meta.dtype, device=x.meta.device).reshape(x.meta.shape)
        return t.requires_grad_(True) if x.meta.tracks and t.is_floating_point() else t
