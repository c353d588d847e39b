"""The same result is computed again in every round of a loop.

What it finds: products, convolutions and other large operations in a loop whose inputs all come from outside of it and
are the same in every round.

Why it matters: the work, and what it saves for backward, is multiplied by the number of rounds.

Example::

    for x in inputs:
        h = torch.tanh(keys @ w + x + h)

Instead::

    projected = keys @ w
    for x in inputs:
        h = torch.tanh(projected + x + h)

Limits: only operations on at least 1,000 elements, in at least four rounds, and none that draws random numbers.

Sources: pytorch/pytorch#50688.
"""

from collections.abc import Iterator
from math import prod

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._rule import Finding
from plait.rules._words import at, says

_HEAVY = {"linear", "matmul", "mm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "embedding", "softmax", "addmm",
          "scaled_dot_product_attention", "cdist", "inverse", "cholesky", "svd"}  # fmt: skip
LEAST = 1_000
ROUNDS = 4


def check(case: Case) -> Iterator[Finding | None]:
    """Loop by loop."""
    for loop, rounds in case.loops.items():
        if len(rounds) < ROUNDS:
            continue
        for node in rounds[0]:
            if op_name(node.op) not in _HEAVY or node.in_backward or not node.inputs or not _large(case, node):
                continue
            same = [each for nodes in rounds for each in nodes if _same(node, each)]
            if len(same) == len(rounds) and all(_outside(case, node, rounds) for node in same[:2]):
                yield case.finding(
                    f"{says(case.graph, node)}{at(case.site(node))} computes the same in each of"
                    f" {len(rounds):,} rounds of"
                    f" `{case.graph.regions[loop].label}`.",
                    "The work and what it saves for backward are multiplied by the number of rounds.",
                    "Compute it once before the loop.",
                    same[:8], ("repeated", case.site(node)), rounds=len(rounds),
                )  # fmt: skip


def _same(one: Node, other: Node) -> bool:
    return (one.site, one.op, one.inputs, one.arguments) == (other.site, other.op, other.inputs, other.arguments)


def _outside(case: Case, node: Node, rounds: list[list[Node]]) -> bool:
    inside = {each.id for nodes in rounds for each in nodes}
    return not any(case.graph.values[edge.value].node in inside for edge in node.inputs)


def _large(case: Case, node: Node) -> bool:
    return prod(case.graph.values[node.inputs[0].value].shape) >= LEAST
