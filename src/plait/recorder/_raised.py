"""Errors as events: a call that raised, and what rules ask about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from plait._torch import transforms_active
from plait.recorder._arguments import tensors_in
from plait.recorder._functions import plain_name

if TYPE_CHECKING:
    from plait.recorder._tape import Tape


def note_error(
    tape: Tape, func: Any, error: Exception, site: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Write down that a call raised."""
    text = str(error)
    detail = f"{plain_name(func)}: {type(error).__name__}: {text.splitlines()[0][:200] if text else ''}"
    tensors = [tensor for _, tensor in tensors_in(args, kwargs)][:16]
    facts = {"op": plain_name(func), "error": type(error).__name__, **_about(tensors)}
    tape.event("error", site, tensors, detail, **facts)


def _about(tensors: list[torch.Tensor]) -> dict[str, int | str]:
    """What else rules ask about a call that failed: ragged arguments, small whole numbers."""
    found: dict[str, int | str] = {}
    for tensor in tensors:
        if tensor.layout is torch.jagged:
            found["jagged"] = int(found.get("jagged", 0)) + 1
        elif "numbers" not in found and _few_numbers(tensor):
            found["numbers"] = str(tensor.detach().tolist())
    return found


def _few_numbers(tensor: torch.Tensor) -> bool:
    """Whether it is a short row of whole numbers on the CPU (lengths, sizes)."""
    small = tensor.dtype is torch.int64 and tensor.dim() == 1 and tensor.numel() <= 64
    return small and tensor.device.type == "cpu" and not transforms_active()
