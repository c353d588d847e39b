"""The names of PyTorch's functions, and what kind each of them is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plait import _torch as private
from plait.batching._lazy import BatchError

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
# Operators with their operands the other way round.
SWAPPED = {
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
# Methods take dimensions one by one, functions do not.
METHODS = VIEWS | {"flip", "repeat", "tile", "permute", "movedim"}

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
# Where the argument `training` stands: these draw nothing without it.
TRAINS = {
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
# Shared tensors among the arguments of these become rows.
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
    "_make_dual": "differentiate what plait.batch returns instead",
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
# By the function, for all the names that PyTorch has for it.
CANON: dict[Any, str] = {}


def _fill_canon() -> None:
    for space in (torch, private.VariableFunctions, private.nn_functions, F, Tensor):
        for n in dir(space):
            if (n in ONLY_F and space is not F) or (n == "unfold" and space is F):  # the method is another one
                continue
            f = getattr(space, n, None)
            if callable(f) and not isinstance(f, type):
                try:
                    CANON.setdefault(f, sys.intern(RENAMED.get(n, n)))  # the core knows names by identity
                except TypeError:
                    continue
    for n in ("add", "sub", "mul", "div"):  # Tensor.__add__ and its like are wrappers of their own
        CANON[getattr(Tensor, f"__{'truediv' if n == 'div' else n}__")] = n
    CANON[Tensor.__getitem__] = "__getitem__"
    CANON[Tensor.__setitem__] = "__setitem__"
    CANON[torch.autograd.grad] = "grad"
    CANON[torch.autograd.backward] = "backward"


_fill_canon()


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
