"""Every private name of PyTorch that plait leans on, in one place. Checked on torch 2.13.0 (Python 3.11).

NOTE [Function modes]
    A `TorchFunctionMode` on the stack gets every call that a program makes through `torch`: functions, operators,
    properties, reads of values. Inside its handler it is off. We push and pop without the context manager, because
    ours must sometimes leave from under a mode that the program pushed on top.

NOTE [Sequence numbers]
    Autograd numbers its nodes as it makes them, per thread. Reading the counter before and after a call tells which
    backward nodes the call made (one call may make several, `cross_entropy` makes two). AccumulateGrad nodes have no
    number of their own.

NOTE [Opening one hop]
    `_skip_one_hop_torch_function` runs the body of a Python function of torch although a mode is on, with the mode
    on inside. That is how the operations that a custom Function's backward runs are seen: the engine takes over the
    mode stack that is in force when it starts.
"""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

import torch
import torch.utils.checkpoint
from torch._functorch import eager_transforms, vmap

CHECKED_ON = "2.13.0"

push_mode: Callable[[Any], None] = torch._C._push_on_torch_function_stack
pop_mode: Callable[[], Any] = torch._C._pop_torch_function_stack
mode_depth: Callable[[], int] = torch._C._len_torch_function_stack
are_modes_on: Callable[[], bool] = torch._C._is_torch_function_enabled
sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
skip_one_hop: Callable[..., Any] = torch._C._skip_one_hop_torch_function
is_autocast_on: Callable[[], bool] = torch._C._is_any_autocast_enabled
norms: Callable[[list[torch.Tensor]], Iterable[torch.Tensor]] = torch._foreach_norm
is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor  # by a transform
DisableTorchFunction: Any = torch._C.DisableTorchFunction
TensorBase: Any = torch._C.TensorBase
set_grad_enabled: Callable[[bool], None] = torch._C._set_grad_enabled  # what `no_grad` calls on its way in and out
VariableFunctions: Any = torch._C._VariableFunctions  # where the functions of `torch` are from,
nn_functions: Any = torch._C._nn  # and those of `torch.nn.functional`
PLAIN_MODULE_CALL: Final[Any] = torch.nn.Module._wrapped_call_impl
STEP_PREPARATION: Final = "_patch_step_function"  # of `Optimizer`: what its constructor does to the method `step`
COMPILATION_SWITCH: Final = "_maybe_set_eval_frame"  # of Dynamo: called around each compiled function
PYTHON_API: Final = (torch.nn.functional, torch.functional)  # modules whose functions, in Python, call a mode through
HANDLE: Final = "handle_torch_function"  # their name for it
EXCHANGE: Final = (torch.nn.utils.stateless, "_reparametrize_module")  # where `functional_call` exchanges weights
HOOK: Final = (torch.utils.hooks.RemovableHandle, "__init__")  # what every registration of a hook calls
OLD_AUTOCAST: Final = (torch, "set_autocast_cpu_enabled")  # deprecated; all else sets it by `set_autocast_enabled`
ScriptMethod: Any = torch._C.ScriptMethod
BY_PYBIND: Final = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._C.ScriptFunction)
# what comes to a mode from inside of a call that must end before another one of its kind in the thread
CHECKPOINT: Final = (torch.utils.checkpoint._CheckpointFrame, "save_inputs")  # of one that is not reentrant
CheckpointFunction: Any = torch.utils.checkpoint.CheckpointFunction
TRANSFORMS: Final = (  # what each transform of torch.func enters when it is called
    ("grad", eager_transforms, "grad_increment_nesting"),
    ("jvp", eager_transforms, "jvp_increment_nesting"),
    ("vmap", vmap, "vmap_increment_nesting"),
)
CLIPPING: Final = "_clip_grads_with_norm_"  # of `clip_grad`: gets the norm that was found
_innermost_transform: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack


NOWHERE: Final = torch.zeros((), dtype=torch.int64, device="meta")  # what C++ that unpacks a value blindly finds


def words_of(t: torch.Tensor) -> bytes:
    """What stands in memory behind the header of a tensor's Python object: the pointer to the tensor."""
    return ctypes.string_at(id(t) + object.__basicsize__, 2 * ctypes.sizeof(ctypes.c_void_p))


def kernel(overload: Any) -> Any:
    """An operator without the Python around its call."""
    return getattr(overload, "_op", overload)


def transforms_active() -> bool:
    """Whether a `torch.func` transform (vmap, grad, ...) is under way: values cannot be read inside."""
    return _innermost_transform() is not None


def autocast_state() -> Any:
    """What autocast would do now: False, or which devices and dtypes."""
    if not is_autocast_on():
        return False
    return tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))


def keep_graph() -> bool:
    """Whether the backward pass that is under way was asked to keep its graph; True where torch does not say."""
    asked = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return True if asked is None else bool(asked())


def dynamo_if_loaded() -> ModuleType | None:
    """The module of Dynamo that has COMPILATION_SWITCH, if the process has loaded it."""
    return sys.modules.get("torch._dynamo.eval_frame")


def grad_fn_of(tensor: torch.Tensor) -> Any:
    """The tensor's backward node; None if it has none, or may have none any more.

    A view of which the base was written to has its node made anew when it is looked at, and some may not be:
    asking then raises (outputs of `chunk` and `unbind`).
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def output_number(tensor: torch.Tensor) -> int:
    """Which output of its backward node the tensor is; 0 where asking is refused, see `grad_fn_of`."""
    try:
        return tensor.output_nr
    except RuntimeError:
        return 0


def node_number(node: Any) -> int:
    """The sequence number of a backward node."""
    return int(node._sequence_nr())


def saved_tensors(node: Any) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of what a backward node keeps; nothing for one that would have to recompute or was freed.

    Reading a tensor that checkpointing has packed would run the forward again, so those are left out.
    """
    found: list[tuple[str, torch.Tensor]] = []
    for name in dir(node):
        if not name.startswith("_saved_"):
            continue
        raw = getattr(node, "_raw" + name, None)
        raws = raw if isinstance(raw, (list, tuple)) else (raw,)
        if raw is None or any(getattr(each, "unpack_hook", None) is not None for each in raws if each is not None):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            continue
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                found.append((name.removeprefix("_saved_"), tensor))
    return found


def storage_key(tensor: torch.Tensor) -> int | None:
    """A number that tensors on one storage share; None for tensors without (functorch wrappers, sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def take_out(mode: Any) -> list[Any] | None:
    """Remove `mode` from the stack, wherever it is; the modes that were above it, for `put_back`. None: not there."""
    above: list[Any] = []
    while mode_depth():
        top = pop_mode()
        if top is mode:
            for each in reversed(above):
                push_mode(each)
            return above
        above.append(top)
    for each in reversed(above):
        push_mode(each)
    return None


def put_back(mode: Any, above: list[Any]) -> None:
    """Undo `take_out`: `mode` goes below as many modes as were above it."""
    lifted = [pop_mode() for _ in range(min(len(above), mode_depth()))]
    push_mode(mode)
    for each in reversed(lifted):
        push_mode(each)


# The errors by which a compiler says that it can't follow the program, by name: their modules load with the compiler.
_REFUSALS = {"Unsupported", "UserError", "UncapturedHigherOrderOpError", "GuardOnDataDependentSymNode", "TraceError"}
_COMPILERS = ("torch._dynamo.", "torch.fx.", "torch._export.")


def refusal_lines(error: BaseException) -> list[tuple[str, int, str]] | None:
    """(file, line, function) of the frames in which a compiler gave up, the innermost last; None for other errors.

    Checked with 2.13: Dynamo keeps the frames that it followed in `real_stack`; export and fx run them.
    """
    kind = type(error)
    if kind.__name__ not in _REFUSALS or not f"{kind.__module__}.".startswith(_COMPILERS):
        return None
    followed = [(each.filename, each.lineno or 0, each.name) for each in getattr(error, "real_stack", None) or ()]
    ran = [(each.filename, each.lineno or 0, each.name) for each in traceback.extract_tb(error.__traceback__)]
    return followed or ran


def compilations(since: float) -> list[dict[str, Any]]:
    """What Dynamo compiled since a time (seconds since 1970), at most its last 64: which function, how often, and the
    line at which it gave up. Checked with 2.13."""
    utils = sys.modules.get("torch._dynamo.utils")
    read = getattr(utils, "get_compilation_metrics", None)
    found: dict[str, dict[str, Any]] = {}
    for each in () if read is None else read():
        if (getattr(each, "start_time_us", None) or 0) < since * 1e6 or not getattr(each, "compile_id", None):
            continue
        frame = str(each.compile_id).rpartition("/")[0]
        made = found.setdefault(frame, {"compiled": 0, "limit": False})
        if each.co_filename:
            made |= {"file": each.co_filename, "line": each.co_firstlineno, "function": each.co_name}
        if each.fail_type is None:
            made["compiled"] += 1
            made["reason"] = getattr(each, "recompile_reason", None) or ""
        elif each.fail_user_frame_filename:
            made |= {"failed_file": each.fail_user_frame_filename, "failed_line": each.fail_user_frame_lineno}
        else:
            made["limit"] = True
    return [each for each in found.values() if "file" in each]
