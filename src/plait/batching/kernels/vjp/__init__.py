"""Hand-made forward and backward lines, one rule an op; an op without a rule here keeps to autograd."""

from plait.batching.kernels.vjp import heads, pointwise, products, reductions, shapes
from plait.batching.kernels.vjp._rule import Rule

VJP: dict[str, Rule] = {
    **pointwise.RULES,
    **products.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **heads.RULES,
}

__all__ = ["VJP", "Rule"]
