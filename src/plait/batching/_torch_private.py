"""Every private PyTorch name that batching leans on; checked against torch 2.13.0."""

from __future__ import annotations

from typing import Any

import torch

_C: Any = torch._C

DisableTorchFunction: Any = _C.DisableTorchFunction
push_mode: Any = _C._push_on_torch_function_stack
pop_mode: Any = _C._pop_torch_function_stack
mode_count: Any = _C._len_torch_function_stack
VariableFunctions: Any = _C._VariableFunctions
nn_functions: Any = _C._nn


any_autocast: Any = _C._is_any_autocast_enabled


def autocast_state() -> Any:
    """What autocast would do now: False, or which devices and dtypes."""
    if not any_autocast():
        return False
    return tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))


def in_functorch() -> bool:
    """True inside `torch.vmap`, `torch.func.grad` and their like."""
    return bool(_C._functorch.maybe_current_level() is not None)


def keep_graph() -> bool:
    """True during a backward pass that was asked to keep its graph."""
    f = getattr(_C._autograd, "_get_current_graph_task_keep_graph", None)
    return True if f is None else bool(f())
