"""`plait.testing.check_batch`: the batched form of a function against the plain Python loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from plait._errors import PlaitError
from plait.batching._api import Options, _modules, gather, run_lanes
from plait.batching._examples import spread
from plait.batching._report import Report
from plait.batching._runtime import LaneRuntime
from plait.batching._tree import flatten

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 5e-2}
_READS: dict[Any, str] = {
    Tensor.__bool__: "bool",
    Tensor.item: "number",
    Tensor.__float__: "number",
    Tensor.__int__: "number",
    Tensor.__index__: "number",
    Tensor.tolist: "list",
}


class BatchMismatch(PlaitError, AssertionError):
    """The batched form and the loop differ."""


class _Log(TorchFunctionMode):
    """Notes what the plain loop reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[list[Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in _READS and self.reads:
            self.reads[-1].append(out)
        return out


def check_batch(
    func: Callable[..., Any],
    examples: Sequence[Any],
    *,
    in_dims: Any = 0,
    randomness: str = "error",
    double_backward: bool = False,
    rtol: float | None = None,
) -> Report:
    """Checks values and gradients of `plait.batch(func)` against a loop; returns the batch's report.

    `examples` holds one tuple of arguments per example (or the only argument itself).  Compared are all results, the
    gradients of every example's tensors that require one, and those of every parameter that `func` reaches; with
    `double_backward` also gradients of gradients.  The largest difference may be `rtol` times the largest magnitude
    (2e-4 for float32, 1e-9 for float64): sums run in another order.  A difference that comes from a decision which
    rounding turned the other way is named as one, with the values on both sides.

    >>> import torch
    >>> from plait.testing import check_batch
    >>> report = check_batch(lambda x: x.sum(0).tanh(), [torch.ones(2, 3), torch.ones(1, 3)])
    >>> report.examples
    2
    """
    rows = [e if isinstance(e, tuple) else (e,) for e in examples]
    inputs = [t for row in rows for t in _tensors(row) if t.requires_grad]
    log = _Log()
    with log:
        expected = []
        for row in rows:
            log.reads.append([])
            expected.append(func(*row))
    report = Report(examples=len(rows))
    given = spread(tuple([list(c) for c in zip(*rows)]), {}, in_dims)
    rt = LaneRuntime(report, randomness, given.device, lambda t: "a shared tensor")
    rt.log = [[] for _ in rows]
    results = run_lanes(rt, func, given, None)
    options = Options(in_dims, 0, randomness, torch.strided, "loop", False)
    got = gather(rt, results, options, [], func)
    flip = _flipped(log.reads, rt.log)
    want = _columns(expected)
    have = _split(got, len(rows), want)
    tol = (
        rtol
        if rtol is not None
        else max([TOLERANCE.get(t.dtype, 0.0) for c in want for t in c if isinstance(t, Tensor)] or [0.0])
    )
    for k, (a, b) in enumerate(zip(want, have)):
        for i, (x, y) in enumerate(zip(a, b)):
            _same(x, y, tol, f"result {k} of example {i}", flip)
    total_want, total_have = _weigh(want), _weigh(have)
    params = {id(p): p for m in _modules(func) for p in m.parameters() if p.requires_grad} | _shared(want)
    for t in inputs:
        params.pop(id(t), None)
    leaves = [*params.values(), *inputs]
    if leaves and isinstance(total_want, Tensor) and total_want.requires_grad:
        if not (isinstance(total_have, Tensor) and total_have.requires_grad):
            raise BatchMismatch("the batched result does not require a gradient, the loop's does")
        _gradients(total_want, total_have, leaves, len(params), tol, double_backward, flip)
    return report


def _shared(columns: list[list[Any]]) -> dict[int, Tensor]:
    """The variables that the loop's results depend on and that examples share, by id: parameters that no module holds,
    too. (One that a single example depends on may be its own.)"""
    found: dict[int, Tensor] = {}
    examples: Counter[int] = Counter()
    for results in zip(*columns):
        own = {id(t): t for r in results if isinstance(r, Tensor) for t in _variables(r)}
        found |= own
        examples.update(own.keys())
    return {k: t for k, t in found.items() if examples[k] > 1 or isinstance(t, nn.Parameter)}


def _variables(result: Tensor) -> list[Tensor]:
    found: list[Tensor] = []
    todo, seen = [result.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if hasattr(node, "variable"):
                found.append(node.variable)
            todo += [n for n, _ in node.next_functions]
    return found


def _gradients(a: Tensor, b: Tensor, leaves: list[Tensor], n_params: int, tol: float, double: bool, flip: str) -> None:
    ga = torch.autograd.grad(a, leaves, allow_unused=True, retain_graph=True, create_graph=double)
    gb = torch.autograd.grad(b, leaves, allow_unused=True, retain_graph=double)
    _compare(ga, gb, leaves, n_params, tol, "the gradient", flip)
    if double:
        gb = torch.autograd.grad(b, leaves, allow_unused=True, retain_graph=True, create_graph=True)
        _compare(ga, gb, leaves, n_params, tol, "the gradient (create_graph)", flip)
        sa, sb = (sum((g * g).sum() for g in gs if g is not None and g.requires_grad) for gs in (ga, gb))
        if isinstance(sa, Tensor) and isinstance(sb, Tensor):
            _compare(
                torch.autograd.grad(sa, leaves, allow_unused=True, retain_graph=True),  # the two may share a part
                torch.autograd.grad(sb, leaves, allow_unused=True),
                leaves,
                n_params,
                10 * tol,
                "the gradient of the gradient",
                flip,
            )


def _compare(ga: Any, gb: Any, leaves: list[Tensor], n_params: int, tol: float, what: str, flip: str) -> None:
    scale = max([float(g.detach().abs().max()) for g in ga if g is not None and g.numel()] or [0.0])
    for k, (x, y, leaf) in enumerate(zip(ga, gb, leaves)):
        who = f"parameter {k}" if k < n_params else f"input {k - n_params}"
        x = torch.zeros_like(leaf) if x is None else x
        y = torch.zeros_like(leaf) if y is None else y
        _same(x, y, tol, f"{what} of {who} {list(leaf.shape)}", flip, scale)


def _same(x: Any, y: Any, tol: float, what: str, flip: str, scale: float = 0.0) -> None:
    if not isinstance(x, Tensor):
        if type(x) is not type(y) or x != y:
            raise BatchMismatch(f"{what} is {y!r} batched and {x!r} in the loop{flip}")
        return
    if not isinstance(y, Tensor) or x.shape != y.shape or x.dtype != y.dtype:
        raise BatchMismatch(f"{what} is {_kind(y)} batched and {_kind(x)} in the loop{flip}")
    if not x.numel():
        return
    x, y = x.detach(), y.detach()
    if not x.dtype.is_floating_point:
        if not torch.equal(x, y):
            raise BatchMismatch(f"{what} differs: {y.tolist()} batched, {x.tolist()} in the loop{flip}")
        return
    if not torch.equal(torch.isnan(x), torch.isnan(y)):
        raise BatchMismatch(f"{what} is NaN in one of the two{flip}")
    finite = torch.isfinite(x)
    if not torch.equal(x[~finite].nan_to_num(), y[~finite].nan_to_num()):
        raise BatchMismatch(f"{what} is infinite in one of the two{flip}")
    if not bool(finite.any()):
        return
    size = max(scale, float(x[finite].abs().max()), 1e-3)
    error = float((x[finite] - y[finite]).abs().max())
    if error > tol * size:
        raise BatchMismatch(
            f"{what} differs by {error:.3g} where the largest value is {size:.3g}"
            + (flip or "; all decisions were the same, so it is not a flipped one")
        )


def _flipped(loop: list[list[Any]], batch: list[list[Any]]) -> str:
    """The first decision that came out differently, or ''."""
    for i, (a, b) in enumerate(zip(loop, batch)):
        for k, (x, y) in enumerate(zip(a, b)):
            if (isinstance(x, (bool, int)) and x != y) or type(x) is not type(y):
                return (
                    f"; a decision flipped: value {k + 1} that example {i} read was {x!r} in the loop and {y!r} batched "  # noqa: E501
                    "(rounding next to a threshold, or a wrong value before it)"
                )
        if len(a) != len(b):
            return f"; example {i} read {len(a)} values in the loop and {len(b)} batched"
    return ""


def _columns(results: list[Any]) -> list[list[Any]]:
    return [list(c) for c in zip(*[flatten(r)[0] for r in results])]


def _split(got: Any, n: int, want: list[list[Any]]) -> list[list[Any]]:
    """The results of a batch as one list per result, one entry per example."""
    found: list[list[Any]] = []

    def walk(x: Any) -> None:
        if isinstance(x, Tensor):
            found.append(list(x.unbind(0)))
        elif isinstance(x, dict):
            for v in x.values():
                walk(v)
        elif x is None:
            found.append([None] * n)
        elif (
            isinstance(x, list)
            and len(found) < len(want)
            and len(x) == n
            and not any(isinstance(v, (list, tuple, dict)) for v in x)
            and (
                (all(isinstance(v, Tensor) for v in x) and not _listed(x)) or not any(isinstance(v, Tensor) for v in x)
            )
        ):
            found.append(list(x))
        else:
            for v in x:
                walk(v)

    def _listed(x: list[Any]) -> bool:
        """True for a list that is structure: its tensors are stacked results of all examples."""
        rest = want[len(found) : len(found) + len(x)]
        return (
            len(rest) == len(x)
            and all(isinstance(c[0], Tensor) and v.dim() == c[0].dim() + 1 and v.shape[0] == n for v, c in zip(x, rest))
            and not all(tuple(v.shape) == tuple(c.shape) for v, c in zip(x, want[len(found)]))
        )

    walk(got)
    return found


def _tensors(x: Any) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, (tuple, list)):
        return [t for v in x for t in _tensors(v)]
    if isinstance(x, dict):
        return [t for v in x.values() for t in _tensors(v)]
    return []


def _weigh(columns: list[list[Any]]) -> Any:
    """One number out of all results; each element with another weight, so that mix-ups show."""
    total: Any = 0.0
    for k, c in enumerate(columns):
        for i, t in enumerate(c):
            if isinstance(t, Tensor) and t.dtype.is_floating_point and t.numel() and t.requires_grad:
                w = torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) * (1 + 0.1 * ((i + 3 * k) % 7))
                total = total + (torch.where(torch.isfinite(t), t, 0.0) * w).sum()
    return total


def _kind(x: Any) -> str:
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else repr(x)


__all__ = ["BatchMismatch", "check_batch", "nn"]
