"""What plait knows about PyTorch's functions by name: which only look, which read values, which write in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from plait._torch import TensorBase

Tensor = torch.Tensor

# Properties and methods that tell about a tensor without computing or reading its elements.
_LOOKS = (
    "dim size numel nelement ndimension stride storage_offset element_size data_ptr is_contiguous is_floating_point"
    " is_complex is_signed is_pinned is_shared get_device is_inference is_same_size is_set_to has_names"
    " untyped_storage storage _typed_storage storage_type __len__ __hash__ __dir__ __repr__ __str__ __format__"
    " __reduce_ex__ __setstate__ register_hook register_post_accumulate_grad_hook retain_grad _is_view"
    " dense_dim sparse_dim is_coalesced _nnz __dlpack_device__ _has_compatible_shallow_copy_type"
).split()
_LOOK_FUNCTIONS = (
    "is_tensor is_storage numel is_floating_point is_complex is_signed is_inference is_same_size result_type can_cast"
    " promote_types get_device broadcast_shapes typename is_grad_enabled is_conj is_neg"
).split()
# Getters that hand out another tensor: not looks.
_TENSOR_GETTERS = {"data", "grad", "_grad", "T", "mT", "H", "mH", "real", "imag", "_base"}

READS: dict[Any, str] = {
    Tensor.__bool__: "bool", Tensor.item: "item", Tensor.__int__: "int", Tensor.__float__: "float",
    Tensor.__index__: "index", Tensor.__complex__: "complex", Tensor.tolist: "tolist", Tensor.numpy: "numpy",
    Tensor.__array__: "numpy", Tensor.__contains__: "contains", Tensor.equal: "equal", torch.equal: "equal",
    torch.allclose: "allclose", Tensor.allclose: "allclose", Tensor.is_nonzero: "bool", torch.is_nonzero: "bool",
}  # fmt: skip

COMPARISONS: dict[Any, str] = {
    getattr(home, name): symbol
    for names, symbol in ((("gt", "__gt__", "greater"), ">"), (("lt", "__lt__", "less"), "<"),
                          (("ge", "__ge__", "greater_equal"), ">="), (("le", "__le__", "less_equal"), "<="),
                          (("eq", "__eq__"), "=="), (("ne", "__ne__", "not_equal"), "!="))
    for name in names for home in (Tensor, torch) if hasattr(home, name)
}  # fmt: skip

# The size of the result depends on the elements: a decision in all but name.
DATA_SHAPES: dict[str, str] = {
    "nonzero": "nonzero", "argwhere": "nonzero", "masked_select": "mask", "unique": "unique",
    "unique_consecutive": "unique", "_unique2": "unique", "_return_output": "unique", "_return_inverse": "unique",
}  # fmt: skip

# Numbers given to these are values or positions, not structure: another number is the same graph.
_VALUE_NUMBERS = {
    "add", "sub", "mul", "div", "pow", "rsub", "floor_divide", "remainder", "fmod", "true_divide", "subtract",
    "multiply", "divide", "float_power", "eq", "ne", "lt", "le", "gt", "ge", "clamp", "clip", "fill", "full",
    "full_like",
    "masked_fill", "where", "lerp", "addcmul", "addcdiv", "getitem", "setitem", "select", "narrow", "index_fill",
    "manual_seed", "randint", "randint_like", "random", "arange", "linspace", "truediv", "floordiv", "mod", "radd",
    "rmul", "rtruediv", "rdiv", "rpow", "rfloordiv", "rmod", "iadd", "isub", "imul", "itruediv", "idiv", "ipow",
    "maximum", "minimum", "tensor", "as_tensor", "scalar_tensor", "roll", "new_full", "new_tensor", "index_select",
    "randperm",
    "item", "tril", "triu", "unbind",
}  # fmt: skip

# The type of their result follows from the types of their arguments, so it need not be read again each time.
_PREDICTABLE = set(
    "add sub mul div radd rsub rmul rdiv truediv rtruediv neg abs exp log log1p expm1 sqrt rsqrt square reciprocal"
    " tanh sigmoid relu gelu silu softplus leaky_relu elu selu erf sin cos tan atan sign lt gt le ge eq ne"
    " logical_and logical_or logical_not maximum minimum pow clamp clip where linear matmul rmatmul mm bmm mv dot"
    " addmm baddbmm rnn_tanh_cell rnn_relu_cell gru_cell softmax log_softmax logsumexp sum mean layer_norm dropout"
    " t transpose"
    " unsqueeze mse_loss cross_entropy nll_loss l1_loss binary_cross_entropy_with_logits detach clone".split()
)

CREATED_COPIES = {"tensor", "as_tensor", "new_tensor", "scalar_tensor"}


def plain_name(func: Any) -> str:
    """`linear`, `__add__`, `data` for the getter of `Tensor.data`."""
    name = getattr(func, "__name__", None) or type(func).__name__
    if name in ("__get__", "__set__", "__delete__"):
        owner = getattr(getattr(func, "__self__", None), "__name__", "")
        return owner if name == "__get__" else f"{owner}{name}"
    if name == "boolean_dispatch" or name == "fn":
        return str(getattr(func, "__qualname__", name)).split(".")[0]
    return str(name)


# What the handler knows of a function, as bits.
VALUE_NUMBERS = 1  # the numbers among its arguments leave the structure as it is
PREDICTABLE = 2  # its result has the type it had the last time, given the same types and circumstances


def kind_of_name(name: str) -> int:
    """The bits for a function of this name."""
    name = name.strip("_")
    return VALUE_NUMBERS * (name in _VALUE_NUMBERS) | PREDICTABLE * (name in _PREDICTABLE)


@cache
def looks() -> frozenset[Any]:
    """The functions that the recorder lets through untouched."""
    found: set[Any] = set()
    for name in dir(Tensor):
        attribute = Tensor.__dict__.get(name, getattr(Tensor, name, None))
        if name in _LOOKS and callable(getattr(Tensor, name, None)):
            found.add(getattr(Tensor, name))
        getter = getattr(attribute, "__get__", None)
        if getter is not None and not callable(attribute) and name not in _TENSOR_GETTERS:
            found.add(getter)
    for name in dir(TensorBase):
        attribute = TensorBase.__dict__.get(name)
        if type(attribute).__name__ == "getset_descriptor" and name not in _TENSOR_GETTERS:
            found.add(attribute.__get__)
    found.update(getattr(torch, name) for name in _LOOK_FUNCTIONS if hasattr(torch, name))
    setter: Callable[..., Any] = Tensor.requires_grad.__set__  # type: ignore[attr-defined]
    found.discard(setter)
    # NOTE [Setting _backward_hooks]: autograd does so from C++ while it holds the lock of a tensor view whose grad_fn
    # it makes anew (after a write in place). A handler that then asks that view for `is_leaf` waits for ever.
    found.add(Tensor._backward_hooks.__set__)  # type: ignore[union-attr]
    return frozenset(found)
