"""Why a gradient is not finite: what is special about the numbers at the operation where it happened."""

from __future__ import annotations

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._elements import Elements

_AT_ZERO = {"sqrt", "rsqrt", "log", "log2", "log10", "div", "rdiv", "reciprocal", "pow", "norm", "acos", "asin",
"log1p",
            "vector_norm", "linalg_norm", "linalg_vector_norm", "cdist", "atan2", "rtruediv", "xlogy", "digamma",
            "lgamma", "logit", "acosh", "atanh", "true_divide", "rpow", "float_power", "cosine_similarity"}  # fmt: skip
_SPREAD = {"std", "var", "std_mean", "var_mean"}
_LOGS = {"logaddexp", "logsumexp", "softmax", "log_softmax", "logcumsumexp", "logaddexp2"}
_SELECTS = {"where", "masked_fill", "masked_fill_", "mul", "getitem", "masked_select", "index_select", "gather"}

# Operations that have a point without a finite slope.
SINGULAR = frozenset(_AT_ZERO | _SPREAD | _LOGS)


def reason(case: Case, known: Elements, node: Node, value: int, bad: list[int]) -> tuple[str, str]:
    """(why, what to do instead)."""
    op = op_name(node.op)
    numbers = known.values.get(value)
    behind = known.gradient(node.outputs[0]) if node.outputs else None
    zero_behind = behind is not None and bool(bad) and len(behind) > max(bad) and all(behind[each] == 0 for each in bad)
    if op in _SPREAD:
        shape = case.graph.values[value].shape
        if not shape or 1 in shape or (numbers is not None and len(numbers) == 1):
            return (
                f"`{op}` divides by one less than the number of elements, and there is one element: 0 / 0.",
                "Use `correction=0`, or leave examples of length one out.",
            )
        return f"`{op}` of a constant row has no slope.", "Add a small number before the root."
    if op in _LOGS:
        return (
            f"every input of `{op}` is -inf for an element, so its gradient is 0 / 0.",
            "Use a large negative number instead of -inf, or leave out rows and cells that can't occur.",
        )
    if "attention" in op:
        return (
            "A row of the attention has every key masked: the softmax over nothing but -inf is 0 / 0, and 0"
            " * NaN spreads"
            " through the shared weights.",
            "Leave at least one key unmasked, or take the empty examples out of the batch before the attention.",
        )
    if zero_behind or _selected_away(case, node, behind):
        select = _select_below(case, node)
        text = f" (`{op_name(select.op)}` did not select it)" if select is not None else ""
        return (
            f"The gradient that comes in is 0 there{text}, the slope of `{op}` is infinite or NaN, and their product is"
            " NaN.",
            f"Make the input of `{op}` safe where it is not used: a second `torch.where` or `clamp` before"
            " it, not after.",
        )
    if op in _AT_ZERO:
        at_zero = numbers is None or any(number == 0 for number in numbers)
        what = "at 0" if at_zero else "outside of its domain"
        return (
            f"`{op}` is taken {what}, where its slope is not finite.",
            "Add a small number inside (`(x + 1e-12)`), clamp the input, or use a form with a defined slope"
            " (`torch.linalg.vector_norm`).",
        )
    if numbers is not None and known.finite(value) is False:
        return (
            f"The input of `{op}` is not finite itself.",
            "Look for the first value of the forward that is not finite.",
        )
    return f"The slope of `{op}` is not finite there.", "Keep its input inside of the range where it has a slope."


def _select_below(case: Case, node: Node) -> Node | None:
    for user in sorted(case.below(node.id)):
        each = case.graph.nodes[user]
        if user != node.id and op_name(each.op) in _SELECTS and len(case.graph.values[each.outputs[0]].shape) > 0:
            return each
    return None


def _selected_away(case: Case, node: Node, behind: list[object] | None) -> bool:
    """No numbers are known, but a `where` follows at once."""
    if behind is not None:
        return any(each == 0 for each in behind) and _select_below(case, node) is not None
    return any(op_name(case.graph.nodes[user].op) == "where" for user in case.users[node.id])
