"""What is in the arguments and results of a call: its tensors, and all else as one would write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """(position, tensor) of all arguments, in the order in which the handler meets them."""
    for index, argument in enumerate(args):
        yield from _tensors(str(index), argument)
    for name, argument in kwargs.items():
        yield from _tensors(name, argument)


def _tensors(position: str, argument: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(argument, torch.Tensor):
        yield position, argument
    elif isinstance(argument, (list, tuple)):
        for index, item in enumerate(argument):
            yield from _tensors(f"{position}.{index}", item)
    elif isinstance(argument, dict):
        for name, item in argument.items():
            yield from _tensors(f"{position}.{name}", item)
    elif isinstance(argument, slice):
        for item in (argument.start, argument.stop, argument.step):
            if isinstance(item, torch.Tensor):
                yield position, item


def flat(result: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result, however nested."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from flat(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from flat(item)


def constants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments that are no tensors, as one would write them."""
    shown = []
    for argument in args:
        if (text := _constant(argument)) is not None:
            shown.append(text)
    for name, argument in kwargs.items():
        if (text := _constant(argument)) is not None and text != "None":
            shown.append(f"{name}={text}")
    return ", ".join(shown)


def _constant(argument: Any) -> str | None:
    if isinstance(argument, torch.Tensor):
        return None
    if argument is None or isinstance(argument, (bool, int, float, complex, str)):
        return repr(argument)
    if isinstance(argument, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(argument)
    if argument is Ellipsis:
        return "..."
    if isinstance(argument, slice):
        start, stop, step = (_constant(each) or "$" for each in (argument.start, argument.stop, argument.step))
        text = f"{'' if start == 'None' else start}:{'' if stop == 'None' else stop}"
        return text if step == "None" else f"{text}:{step}"
    if isinstance(argument, (list, tuple)):
        parts = [_constant(each) for each in argument[:8]]
        if not any(part is not None for part in parts):
            return None
        return f"[{', '.join(part or '$' for part in parts)}{', ...' if len(argument) > 8 else ''}]"
    return type(argument).__name__
