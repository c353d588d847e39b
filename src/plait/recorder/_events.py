"""Events that only rules ask about. Each is written down when it happens, so a healthy program pays nothing.

* `optimizer_of_results`: an optimizer was given tensors that are results of operations (see `_optimizers.py`).
* `update`: the program updated a leaf itself with a gradient that an earlier update had used already.
* `grad_of_result`: `.grad` was read of a result, which has none.
* `clip`: gradients were clipped by a norm that is not finite.
* `module_hook`: a hook of the old kind (`register_backward_hook`) was registered.
* `output_on_ctx`, `saved_intermediate`: what a custom Function keeps, and how.
* `symbolic`: symbolic tracing asked a tensor for its truth or its length.
"""

from __future__ import annotations

import dis
import functools
import math
import sys
from collections.abc import Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plait._torch import CLIPPING, storage_key
from plait.recorder._arguments import flat, tensors_in
from plait.recorder._sites import Sites

if TYPE_CHECKING:
    from plait.recorder._patches import Patches
    from plait.recorder._tape import Tape


def install(patches: Patches, tape: Tape) -> None:
    """Watch for the events of this module."""
    from torch.nn.utils import clip_grad

    if hasattr(clip_grad, CLIPPING):
        patches.replace(clip_grad, CLIPPING, _clip(patches, tape, getattr(clip_grad, CLIPPING)))
    hook = nn.Module.register_backward_hook
    patches.replace(nn.Module, "register_backward_hook", _module_hook(patches, tape, hook))
    proxies = sys.modules.get("torch.fx.proxy")
    if proxies is not None:
        base = proxies.TracerBase
        for what, name in (("truth", "to_bool"), ("length", "iter")):
            patches.replace(base, name, _symbolic(patches, tape, getattr(base, name), what))


def _clip(patches: Patches, tape: Tape, original: Any) -> Any:
    @functools.wraps(original)
    def clip(parameters: Any, max_norm: float, total_norm: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        tensors = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if patches.here() and (total_norm.device.type == "cpu" or tape.values == "stats"):
            with patches.unseen():
                _note_norm(tape, tensors, float(total_norm))
        return original(tensors, max_norm, total_norm, *args, **kwargs)

    return clip


def _note_norm(tape: Tape, parameters: list[torch.Tensor], norm: float) -> None:
    if math.isfinite(norm):
        return
    bad = [each for each in parameters if each.grad is not None and not bool(torch.isfinite(each.grad).all())]
    names = ", ".join(tape.name_of(each) or f"a tensor of shape {list(each.shape)}" for each in bad[:3])
    site = tape.calls.site_of(sys._getframe(3))
    for each in bad:
        tape.entry(each)
    tape.event("clip", site, bad, names, nonfinite=len(bad), tensors=len(parameters), norm=str(norm))


def _module_hook(patches: Patches, tape: Tape, original: Any) -> Any:
    @functools.wraps(original)
    def register(module: nn.Module, hook: Any) -> Any:
        if patches.here():
            tape.event("module_hook", tape.calls.site_of(sys._getframe(1)), (), type(module).__name__,
                       parts=sum(1 for _ in module.children()))  # fmt: skip
        return original(module, hook)

    return register


def _symbolic(patches: Patches, tape: Tape, original: Any, what: str) -> Any:
    @functools.wraps(original)
    def asked(tracer: Any, proxy: Any) -> Any:
        if patches.here():
            tape.event("symbolic", tape.calls.site_of(sys._getframe(1)), (), what)
        return original(tracer, proxy)

    return asked


def function_applied(
    tape: Tape, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, frame: Any
) -> None:
    """Look at what a custom Function kept."""
    site = tape.calls.site_of(frame)
    outputs = list(flat(result))
    node = next((each.grad_fn for each in outputs if each.requires_grad and each.grad_fn is not None), None)
    if node is None or type(node).__name__ != f"{cls.__name__}Backward":
        return
    code = getattr(cls.forward, "__code__", None)
    kept = vars(node) if hasattr(node, "__dict__") else {}
    for name, content in kept.items():
        if any(each.grad_fn is node for each in flat(content)):
            size = sum(each.nbytes for each in flat(content))
            line = _line(code, "STORE_ATTR", name)
            tape.event("output_on_ctx", _site(tape.sites, code, line, site), outputs, f"{cls.__name__}.{name}",
                       nbytes=size)  # fmt: skip
    known = {storage_key(each) for _, each in tensors_in(args, kwargs)} | {storage_key(each) for each in outputs}
    count = sum(
        each.is_floating_point() and storage_key(each) not in known for each in _saved(node) if each is not None
    )
    if count:
        line = _line(code, "LOAD", "save_for_backward")
        tape.event("saved_intermediate", _site(tape.sites, code, line, site), outputs, cls.__name__, tensors=count)


def _saved(node: Any) -> Iterable[torch.Tensor]:
    raws = getattr(node, "_raw_saved_tensors", ())
    if any(getattr(each, "unpack_hook", None) is not None for each in raws):
        return ()  # packed by the program's own hooks: reading would run them
    found: Iterable[torch.Tensor] = node.saved_tensors
    return found


def _line(code: CodeType | None, opcode: str, name: str) -> tuple[int, int] | None:
    """(offset, line) of the instruction of `forward` that handles this name."""
    if code is None:
        return None
    for each in dis.get_instructions(code):
        if each.opname.startswith(opcode) and each.argval == name and each.positions is not None:
            return each.offset, each.positions.lineno or code.co_firstlineno
    return None


def _site(sites: Sites, code: CodeType | None, line: tuple[int, int] | None, otherwise: int | None) -> int | None:
    if code is None or line is None or not isinstance(sites.of(code), dict):
        return otherwise
    known = sites.of(code)
    assert isinstance(known, dict)
    return known.get(line[0]) if line[0] in known else sites.learn(code, line[0])
