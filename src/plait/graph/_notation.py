"""One spelling for every output: `f32[8, 32]`, `linear`, `$4`, `1.2 ms`, `3.4 MB`, `x 4..50`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from plait.graph._model import Graph, Node, Value

# Operators whose plain name in PyTorch is not the name between the underscores.
_OPERATORS = {
    "__getitem__": "getitem", "__setitem__": "setitem", "__truediv__": "div", "__rtruediv__": "div",
    "__itruediv__": "div_", "__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide",
    "__invert__": "bitwise_not", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__mod__": "remainder", "__rmod__": "remainder", "__imod__": "remainder_", "__rpow__": "pow",
    "__rsub__": "rsub", "__contains__": "contains",
}  # fmt: skip
_REFLECTED = frozenset({"radd", "rmul", "rmatmul", "rand", "ror", "rxor", "rdiv"})
_IN_PLACE = frozenset({"iadd", "isub", "imul", "ipow", "iand", "ior", "ixor"})


@cache
def op_name(op: str) -> str:
    """The op without the underscores that only Python needs; an in-place operator ends in `_`, as in PyTorch.

    >>> op_name("__add__"), op_name("__radd__"), op_name("__iadd__"), op_name("linear"), op_name("aten::mm")
    ('add', 'add', 'add_', 'linear', 'aten::mm')
    """
    if op in _OPERATORS:
        return _OPERATORS[op]
    if len(op) > 4 and op.startswith("__") and op.endswith("__"):
        inner = op[2:-2]
        if inner in _REFLECTED:
            return inner[1:]
        return f"{inner[1:]}_" if inner in _IN_PLACE else inner
    return op


def tensor(dtype: str, shape: Iterable[int]) -> str:
    """Element type and sizes.

    >>> tensor("f32", (8, 32)), tensor("f32", ())
    ('f32[8, 32]', 'f32[]')
    """
    return f"{dtype}[{', '.join(map(str, shape))}]"


def value_type(value: Value) -> str:
    """`f32[8, 32]` of a value."""
    return tensor(value.dtype, value.shape)


def value_name(graph: Graph, value: Value | int) -> str:
    """The name a value has in the program, or `$4` (`$4.1` for another output than the first)."""
    found = graph.values[value] if isinstance(value, int) else value
    return found.name or node_number(graph.nodes[found.node], found.output)


def node_number(node: Node, output: int = 0) -> str:
    """`$4`; `$4.1` for its second output."""
    return f"${node.id}" if output <= 0 and len(node.outputs) < 2 else f"${node.id}.{max(output, 0)}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> plural(1, "step"), plural(1234, "step"), plural(2, "backward pass", "backward passes")
    ('1 step', '1,234 steps', '2 backward passes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def times(count: int) -> str:
    """How often: `31x`."""
    return f"{count:,}x"


def span(low: float, high: float) -> str:
    """A range of whole numbers.

    >>> span(4, 50), span(7, 7)
    ('4..50', '7')
    """
    return f"{low:,}" if low == high else f"{low:,}..{high:,}"


def duration(ns: float, short: bool = False) -> str:
    """A time with its unit; `short` takes at most six columns.

    >>> [duration(n) for n in (850, 12_300, 1_250_000, 3.4e9, 125e9, 7.3e12)]
    ['850 ns', '12 us', '1.2 ms', '3.4 s', '2 min 5 s', '2 h 2 min']
    """
    for limit, unit in ((1e3, "ns"), (1e6, "us"), (1e9, "ms"), (99.95e9, "s")):
        if ns < limit * 0.9995:
            return f"{_short(ns / {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}[unit])} {unit}"
    if short:
        return f"{ns / 60e9:.0f} min" if ns < 999e10 else f"{ns / 3600e9:.0f} h"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(round(ns / 60e9), 60)
    return f"{hours:,} h {minutes} min"


def size(nbytes: float) -> str:
    """Bytes with their unit, 1 kB = 1,000 B.

    >>> size(512), size(3_400_000), size(999_960)
    ('512 B', '3.4 MB', '1.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{_short(nbytes) if unit != 'B' else int(nbytes)} {unit}"
        nbytes /= 1000
    return f"{_short(nbytes)} TB"


def number(value: Any) -> str:
    """A number in four digits, a bool or anything else as Python writes it.

    >>> number(0.0213456), number(1.0), number(3.2e-7), number(True), number(123456.7)
    ('0.02135', '1', '3.2e-07', 'True', '123,457')
    """
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e9 else f"{value:.4g}"


def elements(item: Any, limit: int = 8) -> str:
    """Elements of a tensor, nested as they are; long rows are shortened.

    >>> elements([1.0, 2.0, 3.5]), elements(2.0), elements([[1, 2], [3, 4]])
    ('[1, 2, 3.5]', '2', '[[1, 2], [3, 4]]')
    """
    if not isinstance(item, Sequence) or isinstance(item, str):
        return number(item)
    shown = [elements(each, limit) for each in item[:limit]]
    return f"[{', '.join(shown + ['...'] * (len(item) > limit))}]"


def shorten(text: str, width: int) -> str:
    """The text, cut to `width` characters with `...` at its end.

    >>> shorten("for x in windows", 10)
    'for x i...'
    """
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _short(value: float) -> str:
    return f"{value:.1f}" if 0 < value < 9.95 and value != int(value) else f"{value:.0f}"
