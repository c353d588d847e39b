"""`plait.batch`: write the function for one example, call it with many."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

import torch
from torch import Tensor, nn

from plait import _torch as private
from plait._watch import BatchWatch, watch_of
from plait.batching._current import local
from plait.batching._examples import Spread, regroup, spread
from plait.batching._lanes import Lanes
from plait.batching._lazy import BatchError, Lazy
from plait.batching._outputs import as_row, collect
from plait.batching._report import Report
from plait.batching._runtime import LaneRuntime
from plait.batching._tree import flatten, same_tree, unflatten
from plait.graph._uncollected import uncollected

RANDOMNESS = ("error", "different", "same")


class Options:
    """The settings of one batched function."""

    def __init__(
        self,
        in_dims: Any,
        out_dims: Any,
        randomness: str,
        layout: torch.layout,
        fallback: str,
        all_parameters: bool,
    ) -> None:
        if randomness not in RANDOMNESS:
            raise BatchError(f"randomness must be one of {', '.join(map(repr, RANDOMNESS))}, not {randomness!r}")
        if fallback not in ("loop", "error"):
            raise BatchError(f"fallback must be 'loop' or 'error', not {fallback!r}")
        if layout not in (torch.strided, torch.jagged):
            raise BatchError(f"layout must be torch.strided or torch.jagged, not {layout}")
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness
        self.layout = layout
        self.fallback = fallback
        self.all_parameters = all_parameters
        # A plain loop knows neither other layouts nor seeds nor missing gradients.
        self.loops = randomness != "same" and layout is torch.strided and fallback == "loop" and not all_parameters


class Past:
    """Remembers that nothing of a function batches, so that its next calls are spared the lanes: 15 of them at first,
    twice as many each time that a new try finds nothing either."""

    PAUSE, LONGEST = 15, 255

    def __init__(self) -> None:
        self.left = 0
        self.pause = self.PAUSE
        self.width = 0.0

    def loops(self, options: Options) -> bool:
        """Whether this call runs as a plain loop."""
        if not self.left or not options.loops:
            return False
        self.left -= 1
        return True

    def see(self, report: Report) -> None:
        many = report.examples >= 8 and report.calls >= 8 * report.examples
        if report.loop or (many and report.width < 1.5):
            self.left, self.width = self.pause, report.width
            self.pause = min(2 * self.pause + 1, self.LONGEST)
        else:
            self.pause = self.PAUSE


class Batched:
    """A function over many examples; `report` says what the last call did."""

    def __init__(self, func: Callable[..., Any], options: Options) -> None:
        self.func = func
        self.options = options
        self.report = Report()
        self.past = Past()
        functools.update_wrapper(self, func, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.report = Report()
        return run(self.func, self.options, self.report, self.past, args, kwargs)

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        """So that a method can be decorated: `self` is shared."""
        if obj is None:
            return self
        o = self.options
        dims = o.in_dims if isinstance(o.in_dims, tuple) else None
        bound = Batched(
            functools.partial(self.func, obj),
            Options(
                dims if dims is not None else o.in_dims,
                o.out_dims,
                o.randomness,
                o.layout,
                o.fallback,
                o.all_parameters,
            ),
        )
        bound.report, bound.past = self.report, self.past
        return bound


class BatchedModule(nn.Module):
    """A module over many examples; its parameters, buffers and modes are those of the module inside."""

    def __init__(self, module: nn.Module, options: Options) -> None:
        super().__init__()
        self.module = module
        self.options = options
        self.report = Report()
        self.past = Past()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.report = Report()
        return run(self.module, self.options, self.report, self.past, args, kwargs)


def batch(
    func: Any = None,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    layout: torch.layout = torch.strided,
    fallback: str = "loop",
    all_parameters: bool = False,
) -> Any:
    """Makes a function of one example a function of many, with the same values and gradients as a Python loop.

    >>> import torch, plait
    >>> def last(x):                          # one sequence, any length, ordinary Python
    ...     h = torch.zeros(2)
    ...     for row in x:
    ...         h = torch.tanh(row + h) if h.sum() > 0 else row + h
    ...     return h
    >>> plait.batch(last)([torch.ones(1, 2), torch.ones(3, 2)]).shape
    torch.Size([2, 2])

    A list is a list of examples, a tensor is walked along its dimension in `in_dims`, `None` there shares the argument.
    Results are stacked along `out_dims` where their shapes agree; else they come as a list, or as a nested tensor with
    `layout=torch.jagged`.  `randomness` is "error", "different" (each example draws for itself) or "same".
    `fallback="error"` refuses what would run one example at a time.  `all_parameters=True` gives every parameter of a
    module a gradient, zero where no example reached it (for DistributedDataParallel).  What happened is in `.report`.

    Also a decorator, and a wrapper for an `nn.Module` (the result is a module with the same parameters).
    """
    options = Options(in_dims, out_dims, randomness, layout, fallback, all_parameters)
    if func is None:
        return lambda f: batch(
            f, in_dims, out_dims, randomness, layout=layout, fallback=fallback, all_parameters=all_parameters
        )
    if isinstance(func, nn.Module):
        return BatchedModule(func, options)
    if not callable(func):
        raise BatchError(f"plait.batch needs a function or a module, not {type(func).__name__}")
    return Batched(func, options)


def run(
    func: Callable[..., Any],
    options: Options,
    report: Report,
    past: Past,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    given = spread(args, kwargs, options.in_dims)
    report.examples = given.count
    if local.rt is not None:
        return _loop(func, options, report, given, "it was called inside of another plait.batch")
    if given.count and past.loops(options):
        why = f"a call before found nothing to run together (groups of {past.width:.1f} calls); it tries again later"
        return _loop(func, options, report, given, why)
    if private.transforms_active():
        return _loop(func, options, report, given, "it was called inside of a torch.func transform")
    watch = watch_of(given.count)
    try:
        out = _run(func, options, report, given, watch)
        past.see(report)
        return out
    finally:
        if watch is not None:
            watch.ends(report)


def _run(func: Callable[..., Any], options: Options, report: Report, given: Spread, watch: BatchWatch | None) -> Any:
    parameters = _parameters(func) if options.all_parameters else []
    rt = LaneRuntime(report, options.randomness, given.device, _namer(func))
    if options.randomness == "same":
        rt.seed = int(torch.randint(2**31, ()).item())
    if watch is not None:
        rt.watch = watch
        rt.core.on_node = watch.node
    try:
        with uncollected():
            results = run_lanes(rt, func, given, watch, options.loops)
        if len(results) < given.count:
            report.loop = f"all but the first {len(results)}, which had nothing to run together"
            results += one_by_one(func, given, len(results))
        if options.fallback == "error" and report.alone:
            (name, why), n = report.alone.most_common(1)[0]
            raise BatchError(f"{name} ran one example at a time ({n} times: {why}) and fallback='error' was asked for")
        with uncollected():
            return gather(rt, results, options, parameters, func)
    finally:
        rt.close()


def run_lanes(
    rt: LaneRuntime, func: Callable[..., Any], given: Spread, watch: BatchWatch | None, early: bool = False
) -> list[Any]:
    """The results of the examples that ran in lanes: of all, or (`early`) of a few that had nothing to run together."""
    from plait.batching._deferred import modules_deferred

    calls = given.calls(rt)
    with nullcontext() if watch is None else watch.lanes(), modules_deferred(rt, func):
        return Lanes(rt, func, calls, early).run()


def columns_of(results: list[Any]) -> tuple[list[list[Any]], Any]:
    """The results of all examples, one list for each place in their structure, and the structure."""
    leaves0, tree = flatten(results[0])
    if all(type(r) is Lazy for r in results):
        return [results], tree
    columns: list[list[Any]] = [[x] for x in leaves0]
    for i, r in enumerate(results[1:], 1):
        leaves, other = flatten(r)
        if not same_tree(tree, other):
            raise BatchError(
                f"example {i} returned {other.describe()}, but example 0 returned {tree.describe()}; return the "
                "same structure from every example"
            )
        for c, x in zip(columns, leaves):
            c.append(x)
    for c in columns:
        i = next((i for i, x in enumerate(c) if isinstance(x, Tensor) != isinstance(c[0], Tensor)), 0)
        if i:
            raise BatchError(
                f"example {i} returned {_kind(c[i])} where example 0 returned {_kind(c[0])}; return the same "
                "kind from every example"
            )
        for i, x in enumerate(c):
            if not isinstance(x, Tensor) and _holds_value(x):
                raise BatchError(
                    f"example {i} returned a value inside of an object of type {type(x).__name__}; return a tensor, "
                    "or a tuple, list, dict or named tuple of them"
                )
    return columns, tree


def _holds_value(x: Any) -> bool:
    if isinstance(x, (GeneratorType, CoroutineType, AsyncGeneratorType)):
        return True
    inner = x if isinstance(x, (set, frozenset, deque, dict)) else getattr(x, "__dict__", {})
    names = getattr(type(x), "__slots__", ())
    found = [getattr(x, n, None) for n in ((names,) if type(names) is str else names)]
    return any(type(v) is Lazy for v in (*(inner.values() if isinstance(inner, dict) else inner), *found))


def gather(
    rt: LaneRuntime, results: list[Any], options: Options, parameters: list[Tensor], func: Callable[..., Any]
) -> Any:
    if not results:
        raise BatchError(
            "plait.batch was called with no examples; there is nothing to tell the shape of the result from"
        )
    columns, tree = columns_of(results)
    tensors = [isinstance(c[0], Tensor) for c in columns]
    with private.DisableTorchFunction():
        rows = [[as_row(rt, x, i) for i, x in enumerate(c)] for c, is_tensor in zip(columns, tensors) if is_tensor]
        rt.exec.flush([x.slot for c in rows for x in c if x.meta.rows])
        if rt.watch is not None:
            rt.watch.uses([m for m in _modules(func) if any(id(p) in rt.exec.shared for p in m.parameters())])
        done = iter(collect(rt, rows, options.layout, parameters))
        rt.exec.end_forward()
        outs: list[Any] = []
        dims = regroup(options.out_dims, tree, len(columns))
        for c, is_tensor, dim in zip(columns, tensors, dims):
            if not is_tensor:
                outs.append(None if all(x is None for x in c) else c)
                continue
            kind, value = next(done)
            outs.append(value.movedim(0, dim) if kind == "stacked" and dim else value)
    return unflatten(tree, outs)


def _kind(x: Any) -> str:
    return "a tensor" if isinstance(x, Tensor) else "None" if x is None else f"a value of type {type(x).__name__}"


def one_by_one(func: Callable[..., Any], given: Spread, start: int = 0) -> list[Any]:
    """The results of the examples from `start` on, as the plain Python loop has them."""
    results = []
    for i in range(start, given.count):
        args, kwargs = given.plain(i)
        try:
            results.append(func(*args, **kwargs))
        except Exception as e:
            e.add_note(f"plait.batch: in example {i} of {given.count}")
            raise
    return results


def _loop(func: Callable[..., Any], options: Options, report: Report, given: Spread, why: str) -> Any:
    """The plain Python loop, for places where lanes cannot start."""
    report.loop = why
    results = one_by_one(func, given)
    columns, tree = columns_of(results)
    outs: list[Any] = []
    for c, dim in zip(columns, regroup(options.out_dims, tree, len(columns))):
        same = all(isinstance(x, Tensor) and tuple(x.shape) == tuple(c[0].shape) for x in c)
        outs.append(torch.stack(c, dim) if same else None if all(x is None for x in c) else c)
    return unflatten(tree, outs)


def _modules(func: Any) -> list[nn.Module]:
    """The modules that a function reaches: itself, its bound object, its closure, what its code names."""
    found: list[nn.Module] = []
    todo = [func]
    seen: set[int] = set()
    while todo:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        if isinstance(f, nn.Module):
            found.append(f)
            continue
        if isinstance(f, functools.partial):
            todo += [f.func, *f.args, *f.keywords.values()]
        owner = getattr(f, "__self__", None)
        if isinstance(owner, nn.Module):
            found.append(owner)
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            todo.append(wrapped)
        code = getattr(f, "__code__", None)
        if code is not None:
            cells = [c.cell_contents for c in (f.__closure__ or ()) if _filled(c)]
            names = [f.__globals__[n] for n in code.co_names if n in f.__globals__]
            todo += [
                x for x in (*cells, *names) if isinstance(x, (nn.Module, functools.partial)) or hasattr(x, "__code__")
            ]
    return found


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _parameters(func: Any) -> list[Tensor]:
    seen: dict[int, Tensor] = {}
    for m in _modules(func):
        for p in m.parameters():
            if p.requires_grad:
                seen[id(p)] = p
    return list(seen.values())


def _namer(func: Any) -> Callable[[Tensor], str]:
    def name(t: Tensor) -> str:
        for m in _modules(func):
            for n, b in (*m.named_buffers(), *m.named_parameters()):
                if b is t:
                    return f"{n!r} of {type(m).__name__}, which all examples share"
        return f"a tensor of shape {list(t.shape)} that all examples share"

    return name
