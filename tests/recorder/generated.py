"""Small random programs: a list of instructions over a growing list of tensors of one shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor


class Instruction(NamedTuple):
    """What to do, and with which of the tensors so far (taken modulo their number)."""

    what: str
    first: int
    second: int
    times: int


_KINDS = [
    "add", "mul", "square", "tanh", "exp", "view", "transpose", "chunk", "unbind", "cat", "where", "max", "write",
    "write_view", "write_row", "add_into", "detach", "clone", "no_grad", "loop", "branch", "item", "linear", "index",
    "mask", "sum_keep", "noop",
]  # fmt: skip


@st.composite
def instructions(draw: st.DrawFn) -> list[Instruction]:
    """Up to a dozen instructions."""
    number = st.integers(0, 50)
    one = st.builds(Instruction, st.sampled_from(_KINDS), number, number, st.integers(0, 4))
    return draw(st.lists(one, min_size=1, max_size=12))


def run(program: list[Instruction]) -> Tensor:
    """The loss: the mean over all tensors that the program made."""
    torch.manual_seed(0)
    weight = torch.randn(4, 4, requires_grad=True)
    other = torch.randn(4, 4, requires_grad=True)
    tensors = [weight * 1, other + 0, torch.randn(4, 4)]
    for each in program:
        a, b = tensors[each.first % len(tensors)], tensors[each.second % len(tensors)]
        tensors += [made for made in _do(each, a, b) if made is not None]
    total = weight.sum() + other.mean()
    for each in tensors:
        total = total + torch.sin(each).mean()
    return total


def _do(each: Instruction, a: Tensor, b: Tensor) -> Any:
    match each.what:
        case "add":
            return [a + b * 0.5]
        case "mul":
            return [a * b]
        case "square":
            return [a * a]
        case "tanh":
            return [torch.tanh(a)]
        case "exp":
            return [torch.exp(a.clamp(-2, 2))]
        case "view":
            return [a.contiguous().view(16)[:16].view(4, 4)]
        case "transpose":
            return [a.t()]
        case "chunk":
            left, right = torch.cat([a, b]).chunk(2)
            return [left + 1, right]
        case "unbind":
            return [torch.stack([row * 2 for row in a.clone()])]
        case "cat":
            return [torch.cat([a, b, a])[2:6]]
        case "where":
            return [torch.where(a > 0, a, b)]
        case "max":
            values, places = a.max(1, keepdim=True)
            return [values + places + b * 0]
        case "write":
            copy = a.clone()
            copy.mul_(2).add_(b.detach())
            return [copy]
        case "write_view":
            copy = a * 1
            view = copy[each.times % 3 :]
            other_view = copy.t()
            view.mul_(3)
            return [copy, other_view * 1]
        case "write_row":
            copy = a + 0
            copy[each.times % 4] = b[0]
            return [copy]
        case "add_into":
            copy = a.clone()
            copy += b
            copy -= 1
            return [copy]
        case "detach":
            return [a.detach() * b]
        case "clone":
            return [a.clone()]
        case "no_grad":
            with torch.no_grad():
                return [a * 2 + b]
        case "loop":
            for _ in range(each.times):
                a = torch.tanh(a * 0.5 + b * 0.1)
            return [a]
        case "branch":
            return [a * 2 if a.sum() > b.sum() else torch.sigmoid(b)]
        case "item":
            return [a * 3 if a.mean().item() > 0 else a - b]
        case "linear":
            return [torch.nn.functional.linear(a, b)]
        case "index":
            return [a[torch.tensor([3, 1, 1, 0])]]
        case "mask":
            kept = a[a > 0.3]
            return [b * kept.sum()]
        case "sum_keep":
            return [a.sum(0, keepdim=True) * b]
        case _:
            return [a.contiguous().reshape(4, 4).to(torch.float32)]
